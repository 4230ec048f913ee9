// The update "train": optimizers on the servers, with the bits of a serial run.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ps/cluster.h"
#include "trireme/ps_train_update.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kBlock = 24;
constexpr std::size_t kTrainWidth = kTrainHead + kBlock;
constexpr std::size_t kModelRows = 12;

std::vector<float> rows_with(const TrainHead& head, std::span<const float> elements) {
  std::vector<float> rows(kModelRows * kTrainWidth);
  for (std::size_t row = 0; row < kModelRows; ++row) {
    const std::span<float> at = std::span(rows).subspan(row * kTrainWidth, kTrainWidth);
    head.write(at);
    std::ranges::copy(elements.subspan(row * kBlock, kBlock), at.begin() + kTrainHead);
  }
  return rows;
}

std::vector<float> elements_of(std::span<const float> rows) {
  std::vector<float> elements;
  for (std::size_t row = 0; row < kModelRows; ++row) {
    const std::span<const float> block = rows.subspan(row * kTrainWidth + kTrainHead, kBlock);
    elements.insert(elements.end(), block.begin(), block.end());
  }
  return elements;
}

/// The gradient of a worker at a model, with rounding errors in every sum.
std::vector<float> gradient_at(std::span<const float> model, int worker, int step) {
  std::mt19937 random(static_cast<unsigned>(1000 * worker + step));
  std::uniform_real_distribution<float> noise(-1, 1);
  std::vector<float> gradient(model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    gradient[i] = 0.3F * model[i] + noise(random);
  }
  return gradient;
}

/// Serial SGD on the mean of the workers' gradients.
std::vector<float> serial_sgd(int workers, int steps, float rate) {
  std::vector<float> model(kModelRows * kBlock, 1.0F);
  for (int step = 0; step < steps; ++step) {
    std::vector<float> sum = gradient_at(model, 0, step);
    for (int worker = 1; worker < workers; ++worker) {
      const std::vector<float> more = gradient_at(model, worker, step);
      std::ranges::transform(sum, more, sum.begin(), std::plus<>());
    }
    for (std::size_t i = 0; i < model.size(); ++i) {
      model[i] -= rate * (sum[i] / static_cast<float>(workers));
    }
  }
  return model;
}

/// The same with threads and sockets; with `kill`, a server stops and comes back in the middle.
std::vector<float> served_sgd(int workers, int steps, float rate, const TableSpec& spec,
                              bool kill = false) {
  TestCluster cluster({.servers = 2, .replicas = 2, .shards = 4});
  ParameterClient observer(cluster.client_options());
  const TableHandle table = observer.create_table(spec);
  const std::vector<float> ones(kModelRows * kBlock, 1.0F);
  observer
      .push(table, Keys::range(0, kModelRows),
            rows_with({.operation = TrainHead::Operation::Assign}, ones))
      .wait();
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<ParameterClient>> clients;
  for (int worker = 0; worker < workers; ++worker) {
    clients.push_back(std::make_unique<ParameterClient>(cluster.client_options()));
    (void)clients.back()->create_table(spec);
    clients.back()->start_iteration(table);  // all have joined before one starts
  }
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      ParameterClient& client = *clients[static_cast<std::size_t>(worker)];
      std::vector<float> rows(kModelRows * kTrainWidth);
      for (int step = 0; step < steps; ++step) {
        client.start_iteration(table);
        client.pull(table, Keys::range(0, kModelRows), rows).wait();
        EXPECT_EQ(update_count(rows), step);
        const std::vector<float> gradient = gradient_at(elements_of(rows), worker, step);
        if ((step + worker) % 3 == 0) {  // gradients arrive in another order in each step
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        const std::vector<float> pushed =
            rows_with({.worker = worker, .ticket = step + 1, .rate = rate}, gradient);
        client.push(table, Keys::range(0, kModelRows), pushed).wait();
        client.complete_iteration(table);
      }
    });
  }
  if (kill) {
    cluster.stop(0);
    std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * kTestLease.count));
    cluster.start(0);
  }
  std::ranges::for_each(threads, &std::thread::join);
  std::vector<float> rows(kModelRows * kTrainWidth);
  observer.pull(table, Keys::range(0, kModelRows), rows).wait();
  return elements_of(rows);
}

TableSpec sgd_table(int workers, Consistency consistency) {
  return {.name = "model",
          .keys = kModelRows,
          .width = kTrainWidth,
          .update = kTrainUpdate,
          .parameters = to_parameters({.optimizer = TrainUpdate::Optimizer::Sgd,
                                       .workers = workers,
                                       .aggregation = Aggregation::Mean}),
          .consistency = consistency,
          .staleness = 0};
}

TEST(TrainUpdate, BspIsBitIdenticalToSerialSgd) {
  for (const int workers : {2, 3, 5}) {
    EXPECT_EQ(served_sgd(workers, 12, 0.1F, sgd_table(workers, Consistency::Bsp)),
              serial_sgd(workers, 12, 0.1F))
        << workers;
  }
}

TEST(TrainUpdate, SspWithoutStalenessIsBitIdenticalToBsp) {
  EXPECT_EQ(served_sgd(3, 12, 0.1F, sgd_table(3, Consistency::Ssp)), serial_sgd(3, 12, 0.1F));
  EXPECT_EQ(served_sgd(3, 12, 0.1F, sgd_table(3, Consistency::Essp)), serial_sgd(3, 12, 0.1F));
}

TEST(TrainUpdate, BspIsBitIdenticalWhenServerFails) {
  EXPECT_EQ(served_sgd(3, 300, 0.1F, sgd_table(3, Consistency::Bsp), true),
            serial_sgd(3, 300, 0.1F));
}

TEST(TrainUpdate, HottestServerMovesTotalTrafficDividedByServerCount) {
  constexpr std::uint64_t kModel = kModelRows * kTrainWidth * sizeof(float);
  constexpr int kWorkers = 3;
  constexpr int kSteps = 5;
  for (const std::size_t servers : {1, 2, 4}) {
    // A shard is one row.
    const TestCluster cluster({.servers = servers, .shards = kModelRows, .lease = kQuietLease});
    const TableSpec spec = sgd_table(kWorkers, Consistency::Async);
    std::map<std::uint64_t, ServerTraffic> at_server;
    std::map<std::uint64_t, std::uint64_t> held;
    for (int worker = 0; worker < kWorkers; ++worker) {
      ParameterClient client(cluster.client_options());
      const TableHandle table = client.create_table(spec);
      std::vector<float> rows(kModelRows * kTrainWidth);
      client.pull(table, Keys::range(0, kModelRows), rows).wait();  // connects
      const std::map<std::uint64_t, ServerTraffic> before = settled_traffic(client);
      for (int step = 0; step < kSteps; ++step) {
        client.pull(table, Keys::range(0, kModelRows), rows).wait();
        client.push(table, Keys::range(0, kModelRows), rows).wait();
      }
      for (const auto& [server, traffic] : settled_traffic(client)) {
        at_server[server].received += traffic.sent - before.at(server).sent;
        at_server[server].sent += traffic.received - before.at(server).received;
      }
      held.clear();
      for (const ShardPlace& place : client.status().shards) {
        ++held[place.chain.front().server];
      }
    }
    for (const auto& [server, rows] : held) {
      constexpr std::uint64_t kRow = kModel / kModelRows;
      const std::uint64_t expected = kSteps * kWorkers * kRow * rows;
      EXPECT_EQ(at_server[server].received, expected) << servers << " servers";
      EXPECT_EQ(at_server[server].sent, expected) << servers << " servers";
    }
  }
}

// With a server on the node of each of r workers, a push is a reduce-scatter and a pull an all-gather. A model of n floats
// is 2 r n floats in and out of all nodes, and each node's share of it, what it exchanges with itself included, is 2 n
// each way: its worker's whole model and gradient, and its server's r-th of everybody's.
TEST(TrainUpdate, WithOneServerPerWorkerEachNodeMovesAllReduceTraffic) {
  constexpr std::uint64_t kNodes = 4;
  constexpr std::uint64_t kModel = kModelRows * kTrainWidth * sizeof(float);
  const TestCluster cluster({.servers = kNodes, .shards = kModelRows, .lease = kQuietLease});
  std::vector<std::unique_ptr<ParameterClient>> workers;
  for (std::uint64_t node = 0; node < kNodes; ++node) {
    workers.push_back(std::make_unique<ParameterClient>(cluster.client_options()));
  }
  for (std::size_t row = 0; row < kModelRows; ++row) {  // three of twelve on each
    const std::array<std::uint64_t, 1> to{row % kNodes};
    workers[0]->move_shard(row, to);
  }
  const auto is_moved = [&] {
    const ClusterStatus status = workers[0]->status();
    for (std::size_t row = 0; row < kModelRows; ++row) {
      const std::vector<ServerReactor>& chain = status.shards[row].chain;
      if (chain.size() != 1 || chain[0].server != row % kNodes) {
        return false;
      }
    }
    return status.is_healthy;
  };
  while (!is_moved()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::vector<std::uint64_t> moved(kNodes);  // in and out of each node
  for (std::uint64_t node = 0; node < kNodes; ++node) {
    ParameterClient& worker = *workers[node];
    const TableHandle table = worker.create_table(sgd_table(kNodes, Consistency::Async));
    std::vector<float> rows(kModelRows * kTrainWidth);
    worker.pull(table, Keys::range(0, kModelRows), rows).wait();  // connects, and learns the views
    const std::map<std::uint64_t, ServerTraffic> before = settled_traffic(worker);
    worker.push(table, Keys::range(0, kModelRows), rows).wait();
    worker.pull(table, Keys::range(0, kModelRows), rows).wait();
    for (const auto& [server, traffic] : settled_traffic(worker)) {
      const std::uint64_t bytes =
          traffic.sent - before.at(server).sent + traffic.received - before.at(server).received;
      moved[node] += bytes;
      moved[server] += bytes;
    }
  }
  for (std::uint64_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(moved[node], 4 * kModel) << "2 n in and 2 n out";
  }
}

/// Without servers: one row.
class OneRow {
 public:
  explicit OneRow(const TrainUpdate& update)
      : rule_(UpdateRegistry().make(kTrainUpdate, to_parameters(update))),
        state_(rule_->state_per_key(kTrainHead + 2)) {}
  void push(const TrainHead& head, float first, float second) {
    std::vector<float> row(kTrainHead + 2);
    head.write(row);
    row[kTrainHead] = first;
    row[kTrainHead + 1] = second;
    rule_->apply({.width = row.size(), .values = values_, .state = state_, .gradient = row});
  }
  [[nodiscard]] float at(std::size_t i) const { return values_[kTrainHead + i]; }
  [[nodiscard]] std::int64_t updates() const { return update_count(values_); }

 private:
  std::unique_ptr<UpdateRule> rule_;
  std::vector<float> values_ = std::vector<float>(kTrainHead + 2);
  std::vector<float> state_;
};

TEST(TrainUpdate, WaitsForAllWorkersAndAveragesThem) {
  OneRow row({.workers = 2, .aggregation = Aggregation::Mean});
  row.push({.worker = 1, .ticket = 1, .rate = 0.5F}, 4, 8);
  EXPECT_EQ(row.updates(), 0);
  row.push({.worker = 1, .ticket = 1, .rate = 0.5F}, 4, 8);  // again: ignored
  EXPECT_EQ(row.updates(), 0);
  row.push({.worker = 0, .ticket = 1, .rate = 0.5F}, 2, 0);
  EXPECT_EQ(row.updates(), 1);
  EXPECT_EQ(row.at(0), -1.5F);
  EXPECT_EQ(row.at(1), -2.0F);
}

TEST(TrainUpdate, AppliesTicketOnceOnArrival) {
  OneRow row({.workers = 4, .aggregation = Aggregation::None});
  for (int repeat = 0; repeat < 3; ++repeat) {
    row.push({.worker = 2, .ticket = 7, .rate = 4}, 1, 2);
  }
  row.push({.worker = 2, .ticket = 6, .rate = 4}, 100, 100);  // older
  EXPECT_EQ(row.updates(), 1);
  EXPECT_EQ(row.at(0), -1.0F);
  row.push({.worker = 3, .ticket = 7, .rate = 4}, 1, 2);
  EXPECT_EQ(row.at(0), -2.0F);
}

TEST(TrainUpdate, ExchangesStateForClients) {
  OneRow row({.optimizer = TrainUpdate::Optimizer::Momentum, .workers = 1, .momentum = 0.5F});
  row.push({.operation = TrainHead::Operation::Assign, .count = 9}, 10, 20);
  EXPECT_EQ(row.updates(), 9);
  row.push({.ticket = 1, .rate = 1}, 2, 4);
  EXPECT_EQ(row.at(0), 8);
  row.push({.operation = TrainHead::Operation::Exchange, .slot = 0}, 0, 0);
  EXPECT_EQ(row.at(0), 2);  // the momentum
  row.push({.operation = TrainHead::Operation::Exchange, .slot = 0}, 0, 0);
  EXPECT_EQ(row.at(0), 8);
  row.push({.operation = TrainHead::Operation::Exchange, .slot = 5}, 0, 0);  // there is none
  EXPECT_EQ(row.at(1), 16);
}

TEST(TrainUpdate, DoesNotWaitForWorkerThatLeft) {
  OneRow row({.workers = 3, .aggregation = Aggregation::Mean});
  row.push({.worker = 0, .ticket = 1, .rate = 1}, 1, 2);  // leaves before its step is complete
  row.push({.worker = 1, .ticket = 1, .rate = 1}, 4, 8);
  row.push({.worker = 2, .ticket = 1, .rate = 1}, 8, 0);
  EXPECT_EQ(row.updates(), 1);
  row.push({.worker = 1, .ticket = 2, .rate = 1}, 2, 2);
  row.push({.worker = 2, .ticket = 2, .rate = 1}, 4, 4);
  EXPECT_EQ(row.updates(), 1);
  for (int repeat = 0; repeat < 2; ++repeat) {
    row.push({.operation = TrainHead::Operation::Leave, .worker = 0, .rate = 1}, 0, 0);
    EXPECT_EQ(row.updates(), 2);
  }
  EXPECT_EQ(row.at(0), -(1 + 4 + 8) / 3.0F - 3);
  row.push({.worker = 0, .ticket = 3, .rate = 1}, 100, 100);  // it was only silent: ignored
  row.push({.worker = 1, .ticket = 3, .rate = 1}, 1, 1);
  row.push({.worker = 2, .ticket = 3, .rate = 1}, 3, 3);
  EXPECT_EQ(row.updates(), 3);
  EXPECT_EQ(row.at(0), -(1 + 4 + 8) / 3.0F - 5);
}

TEST(TrainUpdate, UndoesExchangeOfWorkerThatLeft) {
  using Operation = TrainHead::Operation;
  for (const Aggregation aggregation : {Aggregation::Mean, Aggregation::None}) {
    OneRow row(
        {.optimizer = TrainUpdate::Optimizer::AdamW, .workers = 2, .aggregation = aggregation});
    row.push({.operation = Operation::Assign}, 7, 7);
    row.push({.operation = Operation::Exchange, .slot = 1}, 0, 0);
    row.push({.operation = Operation::Assign, .count = 5}, 10, 20);
    row.push({.operation = Operation::Exchange, .worker = 1, .slot = 1}, 0, 0);
    EXPECT_EQ(row.at(0), 7);
    for (int repeat = 0; repeat < 2; ++repeat) {
      row.push({.operation = Operation::Leave, .worker = 1}, 0, 0);
      EXPECT_EQ(row.at(0), 10);
      EXPECT_EQ(row.updates(), 5);
    }
  }
}

TEST(TrainUpdate, IgnoresMalformedHeads) {
  OneRow row({.workers = 2, .aggregation = Aggregation::None});
  row.push({.worker = 9, .ticket = 1, .rate = 1}, 1, 1);
  row.push({.worker = -1, .ticket = 1, .rate = 1}, 1, 1);
  row.push({.worker = 0, .ticket = -5, .rate = 1}, 1, 1);
  row.push({.operation = TrainHead::Operation::Leave, .worker = 7}, 1, 1);
  row.push({.operation = static_cast<TrainHead::Operation>(99)}, 1, 1);
  EXPECT_EQ(row.updates(), 0);
  EXPECT_EQ(row.at(0), 0);
}

TEST(TrainUpdate, AdamWMovesByRateInFirstStep) {
  OneRow row({.optimizer = TrainUpdate::Optimizer::AdamW, .workers = 1});
  row.push({.operation = TrainHead::Operation::Assign}, 1, 1);
  row.push({.ticket = 1, .rate = 0.01F, .decay = 0.5F}, 5, -0.001F);
  EXPECT_NEAR(row.at(0), 1 - 0.01 * 0.5 - 0.01, 1e-6);
  EXPECT_NEAR(row.at(1), 1 - 0.01 * 0.5 + 0.01, 1e-6);
}

}  // namespace
}  // namespace trireme::ps
