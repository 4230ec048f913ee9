#include "trireme/ps_bench.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/median.h"
#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "ps/tools/bench_contender.h"
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

  [[nodiscard]] double p50() const { return median(seconds); }
  [[nodiscard]] double rate() const { return 1 / p50(); }
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
    const auto bytes = static_cast<std::size_t>(size.count);
    const std::size_t floats = bytes / sizeof(float);
    const EchoServer echo(floats);
    const std::unique_ptr<StreamContender> floor = echo.connect();
    PushPullContender one(one_.client(), floats);
    PushPullContender chain(chain_.client(), floats);
    const std::unique_ptr<StreamContender> redis = redis_ ? redis_->connect(bytes) : nullptr;
    RingEcho shared_floor(floats);
    PushPullContender shared(shared_.client(), floats);
    std::vector<Contender*> contenders{floor.get(), &one, &chain, &shared_floor, &shared};
    if (redis) {
      contenders.push_back(redis.get());
    }
    for (const std::size_t depth : {std::size_t{1}, options_.depth}) {
      PsBenchRow row = row_of(compete(contenders, depth, options_), size);
      row.depth = depth;
      row.memcpy_bytes_per_second = memcpy_rate(bytes);
      rows.push_back(row);
    }
  }

 private:
  [[nodiscard]] static double cpu_per_gb(const Record& record, Bytes size) {
    constexpr double kGiga = 1e9;
    return record.cpu /
           (2 * static_cast<double>(size.count) * static_cast<double>(record.operations) / kGiga);
  }

  [[nodiscard]] static PsBenchRow row_of(const std::vector<Record>& records, Bytes size) {
    const Record& floor = records[0];
    const Record& one = records[1];
    const Record& shared = records[4];
    PsBenchRow row{.size = size,
                   .floor_per_second = floor.rate(),
                   .per_second = one.rate(),
                   .floor_share = one.rate() / floor.rate(),
                   .chain_share = records[2].rate() / one.rate(),
                   .shared_floor_per_second = records[3].rate(),
                   .shared_per_second = shared.rate(),
                   .shared_ratio = shared.rate() / one.rate(),
                   .shared_cpu_seconds_per_gb = cpu_per_gb(shared, size),
                   .cpu_seconds_per_gb = cpu_per_gb(one, size)};
    if (records.size() > 5) {
      row.redis_per_second = records[5].rate();
      row.redis_ratio = 2 * one.rate() / records[5].rate();
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
  require(options.slice.count > 0, "the slice must be longer than 0 s");
  Bench bench(options);
  std::vector<PsBenchRow> rows;
  for (const Bytes size : options.sizes) {
    bench.run_size(size, rows);
  }
  return rows;
}

}  // namespace trireme::ps
