// ChaosRun: a cluster of processes that are killed and paused, and what comes of it. Defined in several files:
// chaos_processes.cpp (starting them, waiting for them), chaos_strikes.cpp (what strikes them) and ps_chaos.cpp (the run and
// its tally). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ps/host/event_loop.h"
#include "ps/tools/chaos_ledger.h"
#include "ps/tools/chaos_tally.h"
#include "ps/tools/child_process.h"
#include "ps/tools/shard_probe.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {

/// How long the cluster may take to recover.
inline constexpr Seconds kChaosRecovery{180};

/// What a strike is.
enum class ChaosAct : std::uint8_t {
  KillHead,
  KillMiddle,
  KillTail,
  KillRejoining,
  PauseRejoining,
  PauseHead,
  PauseMiddle,
  PauseTail,
  KillCoordinator,
  PauseCoordinator,
  KillWorker,
  PauseWorker,
  Restart,
  Move,
  MoveAndKill,
  MoveAndPause,
  MoveAndKillCoordinator,
};

/// A cluster of processes, what strikes it, and what comes of it.
class ChaosRun {
 public:
  explicit ChaosRun(const ChaosOptions& options);

  [[nodiscard]] ChaosResult run();

 private:
  struct CoordinatorProcess {
    std::string address;
    std::unique_ptr<ChildProcess> process;
  };
  struct Worker {
    std::unique_ptr<ChildProcess> process;
    std::size_t life = 0;
  };

  [[nodiscard]] ParameterClientOptions client_options() const {
    return {.coordinator = coordinator_,
            .etcd_tls = options_.etcd_tls,
            .secret = secret_,
            .lease = options_.lease,
            .patience = kChaosRecovery};
  }
  [[nodiscard]] std::unique_ptr<ChildProcess> start(std::vector<std::string> arguments) const;
  void start_coordinator(CoordinatorProcess& coordinator) const;
  void start_server(std::size_t i);
  void start_worker(std::size_t i);

  /// A server, chosen for its role in the chain of some shard.
  struct Victim {
    std::size_t server = 0;
    ChaosRole role{};
  };
  [[nodiscard]] Victim server_that_is(ChaosRole role);

  void strike();
  void kill(const Victim& victim);
  void restart(const Victim& victim);
  void kill_rejoining(const Victim& victim);
  void pause_rejoining(const Victim& victim);
  void pause(const Victim& victim);
  void kill_coordinator();
  void pause_coordinator();
  void kill_worker();
  void pause_worker();
  void move_shard();
  void begin_move();

  void begin_strike(Strike::Kind kind) { strikes_.push_back({kind, micros_now()}); }
  void begin_kill(std::size_t server);
  void count_kill(ChaosRole role);
  void count_pause(ChaosRole role);
  void check_stop() const;
  void wait_until_healthy();
  void wait_for_learner(std::size_t server);
  void check_workers();
  [[noreturn]] void fail(const std::string& what);
  void stop_workers();
  [[nodiscard]] std::uint64_t sum(SharedCount LifeLedger::*count) const;
  [[nodiscard]] bool has_enough() const;

  void note(const std::string& event) const {
    if (options_.on_event) {
      options_.on_event(event);
    }
  }
  [[nodiscard]] std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  /// A pause of up to this many milliseconds.
  void wait_up_to(std::size_t milliseconds);

  ChaosOptions options_;
  std::mt19937_64 random_;
  std::string secret_;
  std::vector<CoordinatorProcess> coordinators_;
  std::string coordinator_;  ///< where the others find it
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<Worker> workers_;
  SharedRecord<Roster> roster_;
  Ledgers ledgers_;  ///< by life - 1
  std::unique_ptr<ParameterClient> observer_;
  std::unique_ptr<ShardProbe> probe_;
  std::vector<Strike> strikes_;
  std::vector<ChaosAct> acts_;  ///< that are still to come before all have been
  ChaosResult result_;
};

}  // namespace trireme::ps
