#include "trireme/ps_bench.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/median.h"
#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "ps/tools/bench_contender.h"
#include "ps/tools/quantile.h"
#include "tensor/container_size.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

using comm::Clock;

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
constexpr Seconds kLease{5};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  constexpr double kSecondsPerMicro = 1e-6;
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         kSecondsPerMicro * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// What one contender did in all its slices. Rates are medians over batches of a few operations: most batches run
/// undisturbed even where other processes interrupt most slices.
struct Record {
  std::vector<double> seconds;  ///< per operation, of each batch
  std::uint64_t operations = 0;
  double cpu = 0;  ///< of this process

  [[nodiscard]] double rate() const { return 1 / median(seconds); }
  /// With one operation in flight, a batch is one operation, so these are its latencies.
  [[nodiscard]] Seconds p50() const { return {median(seconds)}; }
  [[nodiscard]] Seconds p99() const { return {quantile(seconds, 0.99)}; }
};

/// Ends with nothing in flight, so that the next one is undisturbed.
void run_slice(Contender& contender, std::size_t depth, Seconds time, Record& record) {
  const std::size_t batch = depth;
  const double cpu_before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < depth; ++i) {
    contender.step(depth);  // fill the pipe
  }
  Clock::time_point last = Clock::now();
  do {
    for (std::size_t i = 0; i < batch; ++i) {
      contender.step(depth);
    }
    record.operations += batch;
    const Clock::time_point now = Clock::now();
    record.seconds.push_back(std::chrono::duration<double>(now - last).count() /
                             static_cast<double>(batch));
    last = now;
  } while (last - begin < comm::duration(time));
  record.operations += depth;
  while (contender.drain_one()) {
    ++record.operations;
  }
  record.cpu += cpu_seconds() - cpu_before;
}

/// In turn, forwards and backwards, until each had `time`; one round to warm up.
std::vector<Record> compete(const std::vector<Contender*>& contenders, std::size_t depth,
                            const PsBenchOptions& options) {
  constexpr int kMinRounds = 3;
  const double time = options.time.count * static_cast<double>(contenders.size());
  std::vector<Record> records(contenders.size());
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), 0);
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round <= kMinRounds || comm::since(begin).count < time; ++round) {
    for (const std::size_t i : order) {
      if (round == 1) {
        records[i] = {};
      }
      run_slice(*contenders[i], depth, options.slice, records[i]);
    }
    std::ranges::reverse(order);
  }
  return records;
}

/// Servers and a client in this process.
class BenchCluster {
 public:
  BenchCluster(std::size_t replicas, bool shares_memory)
      : secret_(comm::Secret::random().hex()),
        coordinator_({.secret = secret_,
                      .lease = kLease,
                      .shards = 1,
                      .replicas = replicas,
                      .min_servers = replicas}) {
    for (std::size_t i = 0; i < replicas; ++i) {
      servers_.push_back(std::make_unique<ParameterServer>(
          ParameterServerOptions{.number = i,
                                 .coordinator = coordinator_.address(),
                                 .secret = secret_,
                                 .lease = kLease,
                                 .shares_memory = shares_memory}));
    }
    client_.emplace(ParameterClientOptions{.coordinator = coordinator_.address(),
                                           .secret = secret_,
                                           .lease = kLease,
                                           .shares_memory = shares_memory});
  }
  [[nodiscard]] ParameterClient& client() { return *client_; }

 private:
  std::string secret_;
  ParameterCoordinator coordinator_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::optional<ParameterClient> client_;
};

double memcpy_rate(std::size_t bytes) {
  std::vector<char> from(bytes, '\1');
  std::vector<char> to(bytes, '\0');
  std::vector<double> rates;
  for (int round = 0; round < 9; ++round) {
    const std::size_t times = std::max<std::size_t>(1, (std::size_t{4} << 20) / bytes);
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = 0; i < times; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      from[i % bytes] = to[bytes - 1];  // the copies depend on each other
    }
    rates.push_back(static_cast<double>(bytes * times) / comm::since(begin).count);
  }
  return median(rates);
}

class Bench {
 public:
  explicit Bench(const PsBenchOptions& options) : options_(options) {
    if (!options.redis.empty()) {
      redis_.emplace(options.redis);
    }
  }

  void run_size(Bytes size, std::vector<PsBenchRow>& rows) {
    const Lineup lineup = contenders(size);
    std::vector<Contender*> order;
    for (const auto& [system, contender] : lineup) {
      order.push_back(contender.get());
    }
    for (const std::size_t depth : {std::size_t{1}, options_.depth}) {
      const std::vector<Record> all = compete(order, depth, options_);
      Records records;
      for (std::size_t i = 0; i < all.size(); ++i) {
        records.emplace(lineup[i].first, all[i]);
      }
      PsBenchRow row = row_of(records, size, depth);
      row.memcpy_bytes_per_second = memcpy_rate(container_size(size));
      rows.push_back(row);
    }
  }

 private:
  enum class System : std::uint8_t {
    Floor,
    Echo,
    Stream,
    PushPull,
    Push,
    Pull,
    Chain,
    Relay,
    SharedFloor,
    Shared,
    Redis,
    RedisSet,
    RedisGet,
  };
  using Lineup = std::vector<std::pair<System, std::unique_ptr<Contender>>>;
  using Records = std::map<System, Record>;

  [[nodiscard]] Lineup contenders(Bytes size) {
    using Operation = ParameterContender::Operation;
    const std::size_t bytes = container_size(size);
    const std::size_t floats = bytes / sizeof(float);
    Lineup all;
    const auto add_parameters = [&](System system, BenchCluster& cluster, Operation operation) {
      all.emplace_back(system,
                       std::make_unique<ParameterContender>(cluster.client(), floats, operation));
    };
    all.emplace_back(System::Floor, bare_loop(floats, EchoServer::Answer::Sum));
    all.emplace_back(System::Echo, bare_loop(floats, EchoServer::Answer::Same));
    all.emplace_back(System::Stream, bare_loop(floats, EchoServer::Answer::Byte));
    add_parameters(System::PushPull, one_, Operation::PushPull);
    add_parameters(System::Push, one_, Operation::Push);
    add_parameters(System::Pull, one_, Operation::Pull);
    add_parameters(System::Chain, chain_, Operation::PushPull);
    all.emplace_back(System::Relay, std::make_unique<RelayEcho>(floats));
    all.emplace_back(System::SharedFloor, std::make_unique<RingEcho>(floats));
    add_parameters(System::Shared, shared_, Operation::PushPull);
    if (redis_) {
      using enum RedisServer::Command;
      all.emplace_back(System::Redis, redis_->connect(bytes, {Set, Get}));
      all.emplace_back(System::RedisSet, redis_->connect(bytes, {Set}));
      all.emplace_back(System::RedisGet, redis_->connect(bytes, {Get}));
    }
    return all;
  }

  /// With its server, which ends when the connection is closed.
  class BareLoop : public Contender {
   public:
    BareLoop(std::size_t floats, EchoServer::Answer answer)
        : server_(floats, answer), client_(server_.connect()) {}
    void step(std::size_t depth) override { client_->step(depth); }
    bool drain_one() override { return client_->drain_one(); }

   private:
    EchoServer server_;
    std::unique_ptr<StreamContender> client_;
  };

  [[nodiscard]] static std::unique_ptr<Contender> bare_loop(std::size_t floats,
                                                            EchoServer::Answer answer) {
    return std::make_unique<BareLoop>(floats, answer);
  }

  [[nodiscard]] static double cpu_per_gb(const Record& record, Bytes size) {
    constexpr double kGiga = 1e9;
    return record.cpu /
           (2 * static_cast<double>(size.count) * static_cast<double>(record.operations) / kGiga);
  }

  [[nodiscard]] static PsBenchRow row_of(const Records& records, Bytes size, std::size_t depth) {
    const auto rate = [&](System system) { return records.at(system).rate(); };
    const Record& one = records.at(System::PushPull);
    PsBenchRow row{
        .size = size,
        .depth = depth,
        .floor_per_second = rate(System::Floor),
        .echo_per_second = rate(System::Echo),
        .stream_bytes_per_second = static_cast<double>(size.count) * rate(System::Stream),
        .per_second = one.rate(),
        .push_per_second = rate(System::Push),
        .pull_per_second = rate(System::Pull),
        .floor_share = one.rate() / rate(System::Floor),
        .chain_share = rate(System::Chain) / one.rate(),
        .relay_per_second = rate(System::Relay),
        .chain_relay_share = rate(System::Chain) / rate(System::Relay),
        .shared_floor_per_second = rate(System::SharedFloor),
        .shared_per_second = rate(System::Shared),
        .shared_ratio = rate(System::Shared) / one.rate(),
        .shared_cpu_seconds_per_gb = cpu_per_gb(records.at(System::Shared), size),
        .cpu_seconds_per_gb = cpu_per_gb(one, size)};
    if (depth == 1) {
      row.latency = PsBenchLatency{one.p50(), one.p99(), records.at(System::Echo).p50()};
    }
    if (records.contains(System::Redis)) {
      row.redis = RedisRates{rate(System::Redis), rate(System::RedisSet), rate(System::RedisGet)};
    }
    return row;
  }

  PsBenchOptions options_;
  BenchCluster one_{1, false};
  BenchCluster chain_{2, false};
  BenchCluster shared_{1, true};
  std::optional<RedisServer> redis_;
};

}  // namespace

std::vector<PsBenchRow> run_ps_bench(const PsBenchOptions& options) {
  for (const Bytes size : options.sizes) {
    require(size.count >= 4 && size.count % 4 == 0 && size.count <= kMaxBytes,
            fmt::format("a vector of {} is out of range: use multiples of 4 B up to 64 MiB",
                        to_text(size)));
  }
  require(options.depth >= 1 && options.depth <= 1024, "the depth must be 1 to 1024");
  require(options.time.count > 0, "the measuring time must be longer than 0 s");
  require(options.slice.count > 0, "the slice must be longer than 0 s");
  Bench bench(options);
  std::vector<PsBenchRow> rows;
  for (const Bytes size : options.sizes) {
    bench.run_size(size, rows);
  }
  return rows;
}

}  // namespace trireme::ps
