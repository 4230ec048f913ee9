#include "trireme/ps_bench.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "ps/protocol/values.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {
namespace {

using comm::Clock;
constexpr Seconds kPatience{30};

/// The floor: receives vectors on a blocking loop, adds each to an array, and sends the sum back.
class EchoServer {
 public:
  explicit EchoServer(std::size_t floats)
      : listener_(comm::listen_on()), floats_(floats), thread_([this] { run(); }) {}
  ~EchoServer() { thread_.join(); }
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;
  [[nodiscard]] const comm::Address& address() const { return listener_.address; }

 private:
  void run() {
    const comm::Fd socket = comm::accept_one(listener_.socket, comm::deadline_in(kPatience));
    FloatBuffer received(floats_);
    FloatBuffer sum(floats_);
    std::ranges::fill(sum.view(), 0.0F);
    try {
      for (;;) {
        comm::receive_all(socket, std::as_writable_bytes(received.view()),
                          comm::deadline_in(kPatience));
        for (std::size_t i = 0; i < floats_; ++i) {
          sum.view()[i] += received.view()[i];
        }
        comm::send_all(socket, std::as_bytes(sum.view()), comm::deadline_in(kPatience));
      }
    } catch (const Error&) {
      // the client has closed
    }
  }

  comm::Listener listener_;
  std::size_t floats_;
  std::thread thread_;
};

/// Operations per second of `step`, which does one.
template <class Step>
double rate_of(Seconds time, const Step& step) {
  for (int i = 0; i < 3; ++i) {
    step();
  }
  const Clock::time_point begin = Clock::now();
  std::int64_t count = 0;
  do {
    step();
    ++count;
  } while (comm::since(begin).count < time.count);
  return static_cast<double>(count) / comm::since(begin).count;
}

/// Sends and receives at the same time where several are in flight, or large vectors would block both sides.
double floor_rate(std::size_t floats, std::size_t depth, Seconds time) {
  EchoServer server(floats);
  const comm::Fd socket = comm::connect_to(server.address(), comm::deadline_in(kPatience));
  FloatBuffer sent(floats);
  FloatBuffer received(floats);
  std::ranges::fill(sent.view(), 1.0F);
  const std::span<const std::byte> out = std::as_bytes(std::as_const(sent).view());
  const std::span<std::byte> in = std::as_writable_bytes(received.view());
  std::size_t to_send = out.size() * (depth - 1);  // bytes that are allowed to be sent
  std::size_t out_at = 0;
  return rate_of(time, [&] {
    to_send += out.size();
    for (std::size_t in_at = 0; in_at < in.size();) {
      if (to_send > 0) {
        const std::size_t part = std::min(to_send, out.size() - out_at);
        const comm::Transfer transfer = comm::send_some(socket, out.subspan(out_at, part));
        to_send -= transfer.bytes;
        out_at = (out_at + transfer.bytes) % out.size();
      }
      const comm::Transfer transfer = comm::receive_some(socket, in.subspan(in_at));
      in_at += transfer.bytes;
      if (transfer.bytes == 0 && to_send == 0) {
        (void)comm::wait_for(socket, comm::Ready::Read, comm::deadline_in(kPatience));
      }
    }
  });
}

/// Servers and a client in this process, over TCP.
class BenchCluster {
 public:
  explicit BenchCluster(std::size_t replicas)
      : secret_(comm::Secret::random().hex()),
        coordinator_({.secret = secret_,
                      .lease = {5},
                      .shards = 1,
                      .replicas = replicas,
                      .min_servers = replicas}) {
    for (std::size_t i = 0; i < replicas; ++i) {
      servers_.push_back(std::make_unique<ParameterServer>(ParameterServerOptions{
          .number = i, .coordinator = coordinator_.address(), .secret = secret_, .lease = {5}}));
    }
    client_.emplace(ParameterClientOptions{
        .coordinator = coordinator_.address(), .secret = secret_, .lease = {5}});
  }
  [[nodiscard]] ParameterClient& client() { return *client_; }

 private:
  std::string secret_;
  ParameterCoordinator coordinator_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::optional<ParameterClient> client_;
};

void check_values(ParameterClient& client, TableHandle table, std::size_t floats) {
  const std::vector<float> twos(floats, 2.0F);
  std::vector<float> values(floats);
  client.push_pull(table, Keys::range(0, 1), twos, values).wait();
  client.push_pull(table, Keys::range(0, 1), twos, values).wait();
  if (static_cast<std::size_t>(std::ranges::count(values, 4.0F)) != floats) {
    throw Bug("the parameter server returns wrong sums");
  }
}

double push_pull_rate(ParameterClient& client, TableHandle table, std::size_t depth, Seconds time) {
  const std::size_t floats = table.width;
  const std::vector<float> gradient(floats, 1.0F);
  std::vector<std::vector<float>> values(depth, std::vector<float>(floats));
  std::deque<PendingOperation> pending;
  std::size_t next = 0;
  const double rate = rate_of(time, [&] {
    while (pending.size() < depth) {
      pending.push_back(
          client.push_pull(table, Keys::range(0, 1), gradient, values[next++ % depth]));
    }
    pending.front().wait();
    pending.pop_front();
  });
  for (PendingOperation& operation : pending) {
    operation.wait();
  }
  return rate;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

PsBenchRow bench_size(BenchCluster& cluster, const PsBenchOptions& options, Bytes size) {
  const auto floats = static_cast<std::size_t>(size.count) / sizeof(float);
  ParameterClient& client = cluster.client();
  const TableHandle table =
      client.create_table({.name = fmt::format("vectors of {}", to_text(size)),
                           .keys = 1,
                           .width = static_cast<std::uint32_t>(floats)});
  check_values(client, table, floats);
  std::vector<double> floor;
  std::vector<double> own;
  std::vector<double> deep_floor;
  std::vector<double> deep;
  for (int i = 0; i < options.repetitions; ++i) {
    floor.push_back(floor_rate(floats, 1, options.time));
    own.push_back(push_pull_rate(client, table, 1, options.time));
    deep_floor.push_back(floor_rate(floats, options.depth, options.time));
    deep.push_back(push_pull_rate(client, table, options.depth, options.time));
  }
  return {size, median(floor), median(own), median(deep_floor), median(deep)};
}

}  // namespace

std::vector<PsBenchRow> run_ps_bench(const PsBenchOptions& options) {
  for (const Bytes size : options.sizes) {
    require(size.count >= 4 && size.count % 4 == 0 && size.count <= (std::int64_t{64} << 20),
            fmt::format("a vector of {} is out of range: use multiples of 4 B up to 64 MiB",
                        to_text(size)));
  }
  require(options.depth >= 1 && options.depth <= 1024, "the depth must be 1 to 1024");
  BenchCluster cluster(options.replicas);
  std::vector<PsBenchRow> rows;
  for (const Bytes size : options.sizes) {
    rows.push_back(bench_size(cluster, options, size));
  }
  return rows;
}

}  // namespace trireme::ps
