#include "trireme/ps_chaos.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/mutex.h"
#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "ps/tools/child_process.h"
#include "trireme/error.h"
#include "trireme/parameter_server.h"
#include "trireme/valid.h"

namespace trireme::ps {
namespace {

using comm::Clock;

constexpr Key kKeys = 64;
constexpr Seconds kRecovery{60};

/// A push and how long it took.
struct Timed {
  Clock::time_point begin;
  Clock::time_point end;
};

/// What a worker has pushed, by key.
struct Ledger {
  std::vector<std::uint64_t> begun = std::vector<std::uint64_t>(kKeys);
  std::vector<std::uint64_t> acknowledged = std::vector<std::uint64_t>(kKeys);
  std::vector<Timed> pushes;
  std::string problem;
};

void sleep_for(Seconds time) {
  std::this_thread::sleep_for(comm::duration(time));
}

Seconds quantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return {0};
  }
  std::ranges::sort(values);
  return {
      values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))]};
}

/// The processes of a cluster, and workers in threads of this one.
class Chaos {
 public:
  explicit Chaos(const ChaosOptions& options)
      : options_(options),
        random_(options.seed),
        secret_(comm::Secret::random().hex()),
        address_(comm::to_text(comm::listen_on().address)),
        servers_(options.servers),
        ledgers_(options.workers) {}

  [[nodiscard]] ChaosResult run();

 private:
  [[nodiscard]] TableSpec table() const {
    return {.name = "counters",
            .keys = kKeys,
            .width = static_cast<std::uint32_t>(options_.workers),
            .layout = TableLayout::Dense};
  }
  [[nodiscard]] ParameterClientOptions client_options() const {
    return {
        .coordinator = address_, .secret = secret_, .lease = options_.lease, .patience = kRecovery};
  }
  [[nodiscard]] std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& arguments) const;
  void start_coordinator();
  void start_server(std::size_t i);
  void work(std::size_t worker);
  void inject(ChaosResult& result);
  void strike_server(ChaosResult& result);
  void strike_coordinator(ChaosResult& result);
  void wait_until_healthy();
  void tally(ChaosResult& result);
  void note(const std::string& event) const {
    if (options_.on_event) {
      options_.on_event(event);
    }
  }
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  ChaosOptions options_;
  std::mt19937_64 random_;
  std::string secret_;
  std::string address_;
  std::unique_ptr<ChildProcess> coordinator_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<Ledger> ledgers_;
  std::unique_ptr<ParameterClient> observer_;
  std::vector<Clock::time_point> strikes_;  ///< at servers
  std::atomic<bool> stop_ = false;
};

std::unique_ptr<ChildProcess> Chaos::start(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = options_.serve_command;
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--lease", fmt::format("{}s", options_.lease.count)});
  return std::make_unique<ChildProcess>(command, fmt::format("{}={}", kSecretVariable, secret_));
}

void Chaos::start_coordinator() {
  coordinator_ =
      start({"--role", "coordinator", "--listen", address_, "--replicas",
             fmt::format("{}", options_.replicas), "--shards", fmt::format("{}", options_.shards),
             "--min-servers", fmt::format("{}", options_.servers), "--state",
             options_.folder + "/coordinator.state"});
}

void Chaos::start_server(std::size_t i) {
  servers_[i] =
      start({"--role", "server", "--number", fmt::format("{}", i), "--coordinator", address_});
}

void Chaos::work(std::size_t worker) {
  Ledger& ledger = ledgers_[worker];
  try {
    ParameterClient client(client_options());
    const TableHandle counters = client.create_table(table());
    std::mt19937_64 random(options_.seed * 1000 + worker);
    std::vector<float> one(options_.workers);
    one[worker] = 1;
    while (!stop_) {
      const Key key = random() % kKeys;
      const Clock::time_point begin = Clock::now();
      ++ledger.begun[key];
      client.push(counters, Keys::range(key, key + 1), one).wait();
      ++ledger.acknowledged[key];
      ledger.pushes.push_back({begin, Clock::now()});
    }
  } catch (const std::exception& error) {
    ledger.problem = error.what();
  }
}

/// Not before a failure would have been noticed: until then the coordinator believes that all is well.
void Chaos::wait_until_healthy() {
  sleep_for({1.3 * options_.lease.count});
  const comm::Deadline deadline = comm::deadline_in(kRecovery);
  while (!observer_->status().is_healthy) {
    if (comm::passed(deadline)) {
      throw Error(ErrorKind::Peer,
                  fmt::format("the cluster has not recovered within {}", to_text(kRecovery)));
    }
    sleep_for({0.01});
  }
}

void Chaos::strike_server(ChaosResult& result) {
  const auto i =
      static_cast<std::size_t>(between(0, static_cast<std::int64_t>(servers_.size()) - 1));
  const bool is_kill = between(0, 2) > 0;
  strikes_.push_back(Clock::now());
  if (is_kill) {
    note(fmt::format("kill server {}", i));
    servers_[i]->kill();
    ++result.kills;
    sleep_for({static_cast<double>(between(0, 300)) / 1000});
    start_server(i);
  } else {
    const double pause = static_cast<double>(between(20, 600)) / 1000;
    note(fmt::format("pause server {} for {:.0f} ms", i, pause * 1000));
    servers_[i]->pause();
    ++result.pauses;
    sleep_for({pause});
    servers_[i]->resume();
  }
}

void Chaos::strike_coordinator(ChaosResult& result) {
  const double pause = static_cast<double>(between(0, 300)) / 1000;
  if (between(0, 1) == 0) {
    note("kill the coordinator");
    coordinator_->kill();
    ++result.kills;
    sleep_for({pause});
    start_coordinator();
  } else {
    note(fmt::format("pause the coordinator for {:.0f} ms", pause * 1000));
    coordinator_->pause();
    ++result.pauses;
    sleep_for({pause});
    coordinator_->resume();
  }
}

void Chaos::inject(ChaosResult& result) {
  if (between(0, 4) == 0) {
    strike_coordinator(result);
  } else {
    strike_server(result);
  }
}

void Chaos::tally(ChaosResult& result) {
  const TableHandle counters = observer_->create_table(table());
  std::vector<float> counts(kKeys * options_.workers);
  observer_->pull(counters, Keys::range(0, kKeys), counts).wait();
  std::vector<double> latencies;
  std::vector<double> stalls(strikes_.size(), 0);
  for (std::size_t w = 0; w < ledgers_.size(); ++w) {
    for (Key key = 0; key < kKeys; ++key) {
      const auto count = static_cast<std::uint64_t>(counts[key * options_.workers + w]);
      const std::uint64_t acknowledged = ledgers_[w].acknowledged[key];
      result.acknowledged += acknowledged;
      result.lost += acknowledged > count ? acknowledged - count : 0;
      result.doubled += count > ledgers_[w].begun[key] ? count - ledgers_[w].begun[key] : 0;
    }
    for (const Timed& push : ledgers_[w].pushes) {
      const double seconds = std::chrono::duration<double>(push.end - push.begin).count();
      latencies.push_back(seconds);
      for (std::size_t i = 0; i < strikes_.size(); ++i) {
        const bool concerns = push.end >= strikes_[i] &&
                              push.begin < strikes_[i] + comm::duration({2 * options_.lease.count});
        stalls[i] = concerns ? std::max(stalls[i], seconds) : stalls[i];
      }
    }
  }
  result.failover_p50 = quantile(stalls, 0.5);
  result.failover_p99 = quantile(stalls, 0.99);
  result.push_p50 = quantile(latencies, 0.5);
}

ChaosResult Chaos::run() {
  const Clock::time_point begin = Clock::now();
  ChaosResult result;
  std::filesystem::remove(options_.folder + "/coordinator.state");
  start_coordinator();
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    start_server(i);
  }
  observer_ = std::make_unique<ParameterClient>(client_options());
  (void)observer_->create_table(table());
  std::vector<std::thread> workers;
  for (std::size_t w = 0; w < options_.workers; ++w) {
    workers.emplace_back([this, w] { work(w); });
  }
  std::string problem;
  try {
    wait_until_healthy();
    while (result.kills + result.pauses < options_.faults) {
      inject(result);
      wait_until_healthy();
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  stop_ = true;
  for (std::thread& worker : workers) {
    worker.join();
  }
  for (const Ledger& ledger : ledgers_) {
    problem = problem.empty() ? ledger.problem : problem;
  }
  if (!problem.empty()) {
    throw Error(ErrorKind::Peer, problem);
  }
  tally(result);
  result.elapsed = comm::since(begin);
  return result;
}

}  // namespace

std::vector<std::string> problems(const ChaosOptions& options) {
  std::vector<std::string> found;
  if (options.servers < options.replicas + 1 || options.replicas < 2) {
    found.push_back(
        fmt::format("{} servers with {} replicas cannot survive a failure and recover: use 2 or "
                    "more replicas and more servers than replicas",
                    options.servers, options.replicas));
  }
  if (options.workers == 0) {
    found.emplace_back("needs at least one worker");
  }
  return found;
}

ChaosResult run_chaos(const ChaosOptions& options) {
  require_valid(options);
  return Chaos(options).run();
}

}  // namespace trireme::ps
