// A pool of parts on the servers: every part is used once, whoever computes it and whoever dies.
#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ps/cluster.h"
#include "trireme/local_servers.h"
#include "trireme/ps_pool.h"
#include "trireme/ps_train_update.h"

namespace trireme::ps {
namespace {

constexpr int kPoolWorkers = 4;

PartPool::Options pool_of(int worker) {
  return {.table = "parts", .worker = worker, .workers = kPoolWorkers};
}

TEST(PartPool, HandsOutEveryPartOnceToWorkersOfDifferentSpeed) {
  constexpr std::int64_t kFirst = 12;
  constexpr std::int64_t kLast = 212;
  TestCluster cluster({.servers = 2, .replicas = 2});
  std::vector<std::set<std::int64_t>> taken(kPoolWorkers);
  {
    ParameterClient client(cluster.client_options());
    PartPool(client, pool_of(0)).open(kFirst, kLast);
  }
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kPoolWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      ParameterClient client(cluster.client_options());
      PartPool pool(client, pool_of(worker));
      while (const std::optional<Ticket> ticket = pool.take()) {
        EXPECT_EQ(ticket->owner, worker);
        EXPECT_TRUE(taken[static_cast<std::size_t>(worker)].insert(ticket->part).second);
        std::this_thread::sleep_for(std::chrono::milliseconds(worker == 0 ? 25 : 5));
      }
      EXPECT_EQ(pool.last(), kLast);
    });
  }
  std::ranges::for_each(threads, &std::thread::join);
  std::set<std::int64_t> all;
  for (std::set<std::int64_t>& parts : taken) {
    all.merge(parts);
    EXPECT_TRUE(parts.empty());  // what stays behind was taken twice
  }
  EXPECT_EQ(all.size(), 200U);
  EXPECT_EQ(*all.begin(), kFirst);
  EXPECT_EQ(*all.rbegin(), kLast - 1);
}

TEST(PartPool, StopsAtEndOfStep) {
  TestCluster cluster({.servers = 1});
  ParameterClient client(cluster.client_options());
  PartPool pool(client, pool_of(1));
  pool.open(0, 100);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(pool.take()->part, i);
  }
  pool.stop(4);
  EXPECT_EQ(pool.last(), 8);
  EXPECT_EQ(pool.take()->part, 6);
  EXPECT_EQ(pool.take()->part, 7);
  EXPECT_FALSE(pool.take().has_value());
}

// --- Workers that are processes.

constexpr std::int64_t kParts = 60;
constexpr std::size_t kRowWidth = kTrainHead + kParts;
constexpr Key kPoolRows = 8;

TableSpec uses_table() {
  return {.name = "uses",
          .keys = kPoolRows,
          .width = kRowWidth,
          .update = kTrainUpdate,
          .parameters = to_parameters({.optimizer = TrainUpdate::Optimizer::Sgd,
                                       .workers = kPoolWorkers,
                                       .aggregation = Aggregation::None})};
}

/// Adds 1 to the part's counter in every row, through the servers' SGD.
std::vector<float> use_of(const Ticket& ticket) {
  std::vector<float> rows(kPoolRows * kRowWidth);
  for (std::size_t row = 0; row < kPoolRows; ++row) {
    const std::span<float> at = std::span(rows).subspan(row * kRowWidth, kRowWidth);
    TrainHead{.worker = ticket.owner, .ticket = ticket.part + 1, .rate = kPoolWorkers}.write(at);
    at[kTrainHead + static_cast<std::size_t>(ticket.part)] = -1;
  }
  return rows;
}

ParameterClientOptions client_of(const LocalServers& servers) {
  return {.coordinator = servers.coordinator(),
          .secret = servers.secret(),
          .lease = {2},
          .patience = {60}};
}

/// Called by a worker after each push, with how many it has made.
using AfterPush = std::function<void(int done)>;

/// Until the pool is empty.
[[noreturn]] void work(const LocalServers& servers, int worker, const AfterPush& after_push) {
  ParameterClient client(client_of(servers));
  const TableHandle table = client.create_table(uses_table());
  PartPool pool(client, pool_of(worker));
  for (int done = 0;;) {
    const std::optional<Ticket> ticket = pool.take();
    if (!ticket) {
      ::_exit(0);
    }
    client.push(table, Keys::range(0, kPoolRows), use_of(*ticket)).wait();
    after_push(++done);
  }
}

LocalServersOptions two_servers() {
  return {.servers = 2,
          .replicas = 2,
          .lease = {2},
          .shards = 4,
          .run = LocalServersOptions::Run::Processes};
}

pid_t start_worker(
    const LocalServers& servers, int worker, const AfterPush& after_push = [](int) {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    work(servers, worker, after_push);
  }
  return child;
}

/// In a process of its own: this one starts no threads before its last fork.
void open_pool(const LocalServers& servers) {
  const pid_t opener = ::fork();
  if (opener == 0) {
    ParameterClient client(client_of(servers));
    PartPool(client, pool_of(0)).open(0, kParts);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(opener, &status, 0);
  ASSERT_EQ(status, 0);
}

void expect_used_once(ParameterClient& client) {
  const TableHandle table = client.create_table(uses_table());
  std::vector<float> rows(kPoolRows * kRowWidth);
  client.pull(table, Keys::range(0, kPoolRows), rows).wait();
  for (std::size_t row = 0; row < kPoolRows; ++row) {
    for (std::size_t part = 0; part < kParts; ++part) {
      EXPECT_EQ(rows[row * kRowWidth + kTrainHead + part], 1.0F) << row << " " << part;
    }
  }
}

TEST(PartPool, EveryPartIsUsedOnceWhenServerIsKilled) {
  const LocalServers servers(two_servers());
  open_pool(servers);
  std::vector<pid_t> workers;
  for (int worker = 0; worker < kPoolWorkers; ++worker) {
    workers.push_back(start_worker(servers, worker, [&](int done) {
      if (worker == 0 && done == 3) {
        ::kill(servers.processes().at(0), SIGKILL);
      }
    }));
  }
  for (const pid_t worker : workers) {
    int status = 0;
    ::waitpid(worker, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ParameterClient client(client_of(servers));
  expect_used_once(client);
}

TEST(PartPool, PushedPartIsNotReusedWhenItsWorkerIsKilled) {
  const LocalServers servers(two_servers());
  ASSERT_EQ(servers.processes().size(), 2U);
  open_pool(servers);
  // Stops for ever after its third push, before the next take: its part is used, but the pool does not know.
  const pid_t victim = start_worker(servers, 0, [](int done) {
    if (done == 3) {
      ::kill(::getpid(), SIGSTOP);
    }
  });
  int status = 0;
  ::waitpid(victim, &status, WUNTRACED);
  ASSERT_TRUE(WIFSTOPPED(status));
  ::kill(victim, SIGKILL);
  ::waitpid(victim, &status, 0);
  std::vector<pid_t> others;
  for (int worker = 1; worker < kPoolWorkers; ++worker) {
    others.push_back(start_worker(servers, worker));
  }
  ParameterClient client(client_of(servers));
  PartPool(client, pool_of(1)).abandon(0);
  for (const pid_t child : others) {
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  // Whoever ended before the part was handed back may have left it.
  PartPool pool(client, pool_of(2));
  const TableHandle table = client.create_table(uses_table());
  while (const std::optional<Ticket> ticket = pool.take()) {
    client.push(table, Keys::range(0, kPoolRows), use_of(*ticket)).wait();
  }
  expect_used_once(client);
}

}  // namespace
}  // namespace trireme::ps
