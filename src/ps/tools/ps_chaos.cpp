// The run, its tally, and what options it takes.
#include "trireme/ps_chaos.h"

#include <array>
#include <tuple>

#include <fmt/format.h>

#include "comm/net/deadline.h"
#include "ps/tools/chaos_run.h"
#include "ps/tools/chaos_tables.h"
#include "trireme/valid.h"

namespace trireme::ps {

/// A worker whose push is not acknowledged would leave it open whether it was applied.
void ChaosRun::stop_workers() {
  const comm::Deadline deadline = comm::deadline_in(kChaosRecovery);
  for (const Worker& worker : workers_) {
    (*ledgers_.at(worker.life - 1))->stop = true;
  }
  for (const Worker& worker : workers_) {
    while (!(*ledgers_.at(worker.life - 1))->is_finished) {
      check_stop();
      if (comm::passed(deadline)) {
        fail("a worker has not finished its pushes");
      }
      wait_up_to(20);
    }
  }
  check_workers();
}

ChaosResult ChaosRun::run() {
  const comm::Clock::time_point begin = comm::Clock::now();
  for (CoordinatorProcess& coordinator : coordinators_) {
    start_coordinator(coordinator);
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    start_server(i);
  }
  observer_ = std::make_unique<ParameterClient>(client_options());
  const TableHandle counters = observer_->create_table(chaos_counters());
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    start_worker(i);
  }
  wait_until_healthy();
  probe_ = std::make_unique<ShardProbe>(client_options(), options_.shards);
  while (!has_enough()) {
    strike();
    if (below(2) == 0) {
      kill_worker();  // while the cluster recovers
    }
    wait_until_healthy();
  }
  stop_workers();
  tally_throughput(probe_->finish(), strikes_, options_.lease, result_);
  std::vector<float> counts(kChaosKeys * kMaxChaosLives);
  observer_->pull(counters, Keys::range(0, counts.size()), counts).wait();
  for (std::size_t i = 0; i < ledgers_.size(); ++i) {
    tally_counts(*ledgers_[i], i + 1, counts, result_);
  }
  tally_staleness(ledgers_, result_);
  tally_times(ledgers_, strikes_, options_.lease, result_);
  result_.elapsed = comm::since(begin);
  return result_;
}

std::string_view to_text(ChaosRole role) {
  static constexpr std::array<std::string_view, kChaosRoles> kNames{"head", "middle", "tail",
                                                                    "coordinator", "worker"};
  return kNames.at(static_cast<std::size_t>(role));
}

std::vector<std::string> problems(const ChaosOptions& options) {
  std::vector<std::string> found;
  if (options.servers < options.replicas + 1 || options.replicas < 2) {
    found.push_back(
        fmt::format("{} servers with {} replicas cannot survive a failure and recover: use 2 or "
                    "more replicas and more servers than replicas",
                    options.servers, options.replicas));
  }
  if (options.reactors == 0) {
    found.emplace_back("0 reactors are out of range: use 1 or more");
  }
  if (options.lease.count < 0.01) {
    found.push_back(
        fmt::format("a lease of {} is out of range: use 10 ms or more", to_text(options.lease)));
  }
  if (options.kills > kMaxChaosLives) {
    found.push_back(
        fmt::format("{} kills are out of range: use 0 to {}", options.kills, kMaxChaosLives));
  }
  if (options.workers == 0 || options.workers > std::tuple_size_v<decltype(Roster::life)>) {
    found.push_back(fmt::format("{} workers are out of range: use 1 to {}", options.workers,
                                std::tuple_size_v<decltype(Roster::life)>));
  }
  return found;
}

ChaosResult run_chaos(const ChaosOptions& options) {
  require_valid(options);
  return ChaosRun(options).run();
}

}  // namespace trireme::ps
