#include "trireme/ps_chaos.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "ps/host/event_loop.h"
#include "ps/tools/chaos_ledger.h"
#include "ps/tools/chaos_tables.h"
#include "ps/tools/chaos_tally.h"
#include "ps/tools/child_process.h"
#include "ps/tools/shard_probe.h"
#include "trireme/error.h"
#include "trireme/parameter_server.h"
#include "trireme/valid.h"

namespace trireme::ps {
namespace {

constexpr Seconds kRecovery{180};

/// What a strike is.
enum class Act : std::uint8_t {
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
  Move,
  MoveAndKill,
  MoveAndPause,
  MoveAndKillCoordinator,
};

/// All of them, the kills of servers twice.
std::vector<Act> all_acts() {
  using enum Act;
  return {KillHead,  KillMiddle,      KillTail,         KillHead,     KillMiddle,
          KillTail,  KillRejoining,   PauseRejoining,   PauseHead,    PauseMiddle,
          PauseTail, KillCoordinator, PauseCoordinator, KillWorker,   PauseWorker,
          Move,      MoveAndKill,     MoveAndKill,      MoveAndPause, MoveAndKillCoordinator};
}

void sleep_for(Seconds time) {
  std::this_thread::sleep_for(comm::duration(time));
}

/// The processes of a cluster.
class Chaos {
 public:
  explicit Chaos(const ChaosOptions& options)
      : options_(options),
        random_(options.seed),
        secret_(comm::Secret::random().hex()),
        coordinators_(options.membership.empty() ? 1 : 2),
        servers_(options.servers),
        workers_(options.workers),
        roster_(roster_file(options.folder)) {
    for (Coordinator& coordinator : coordinators_) {
      coordinator.address = comm::to_text(comm::listen_on().address);
    }
    coordinator_ = options.membership.empty() ? coordinators_[0].address : options.membership;
  }

  [[nodiscard]] ChaosResult run();

 private:
  struct Coordinator {
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
            .patience = kRecovery};
  }
  [[nodiscard]] std::unique_ptr<ChildProcess> start(std::vector<std::string> arguments) const;
  void start_coordinator(Coordinator& coordinator) const;
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
  void wait_up_to(std::size_t milliseconds) {
    sleep_for({static_cast<double>(below(milliseconds)) / 1000});
  }

  ChaosOptions options_;
  std::mt19937_64 random_;
  std::string secret_;
  std::vector<Coordinator> coordinators_;
  std::string coordinator_;  ///< where the others find it
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<Worker> workers_;
  SharedRecord<Roster> roster_;
  Ledgers ledgers_;  ///< by life - 1
  std::unique_ptr<ParameterClient> observer_;
  std::unique_ptr<ShardProbe> probe_;
  std::vector<Strike> strikes_;
  std::vector<Act> acts_;  ///< that are still to come before all have been
  ChaosResult result_;
};

std::unique_ptr<ChildProcess> Chaos::start(std::vector<std::string> arguments) const {
  std::vector<std::string> command{options_.program, "ps"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--lease", fmt::format("{}s", options_.lease.count)});
  const TlsFiles& files = options_.etcd_tls;
  const std::array<std::pair<const char*, std::string>, 3> etcd_options{
      {{"--etcd-ca", files.ca}, {"--etcd-cert", files.certificate}, {"--etcd-key", files.key}}};
  for (const auto& [option, file] : etcd_options) {
    if (!file.empty()) {
      command.insert(command.end(), {option, file});
    }
  }
  return std::make_unique<ChildProcess>(command, fmt::format("{}={}", kSecretVariable, secret_));
}

void Chaos::start_coordinator(Coordinator& coordinator) const {
  const bool is_elected = !options_.membership.empty();
  coordinator.process =
      start({"serve", "--role", "coordinator", "--listen", coordinator.address, "--replicas",
             fmt::format("{}", options_.replicas), "--shards", fmt::format("{}", options_.shards),
             "--min-servers", fmt::format("{}", options_.servers),
             is_elected ? "--membership" : "--state",
             is_elected ? options_.membership : options_.folder + "/coordinator.state"});
}

void Chaos::start_server(std::size_t i) {
  servers_[i] = start({"serve", "--number", fmt::format("{}", i), "--reactors",
                       fmt::format("{}", options_.reactors), "--coordinator", coordinator_});
}

void Chaos::start_worker(std::size_t i) {
  const std::size_t life = ledgers_.size() + 1;
  if (life >= kMaxChaosLives) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} lives of workers are too many: use fewer kills", kMaxChaosLives));
  }
  ledgers_.push_back(
      std::make_unique<SharedRecord<LifeLedger>>(ledger_file(options_.folder, life)));
  workers_[i] = {
      start({"chaos-worker", "--coordinator", coordinator_, "--folder", options_.folder, "--life",
             fmt::format("{}", life), "--seed", fmt::format("{}", options_.seed)}),
      life};
  roster_->life.at(i) = life;
}

// --- Waiting.

/// Not before a failure would have been noticed: until then the coordinator believes that all is well.
void Chaos::wait_until_healthy() {
  check_stop();
  sleep_for({1.3 * options_.lease.count});
  const comm::Deadline deadline = comm::deadline_in(kRecovery);
  while (!observer_->status().is_healthy) {
    check_stop();
    check_workers();
    if (comm::passed(deadline)) {
      fail(fmt::format("the cluster has not recovered within {}", to_text(kRecovery)));
    }
    sleep_for({0.01});
  }
}

/// Until the server receives the state of a shard, or has.
void Chaos::wait_for_learner(std::size_t server) {
  const comm::Deadline deadline = comm::deadline_in({4 * options_.lease.count});
  const auto is_learning = [&](const ShardPlace& place) {
    return std::ranges::find(place.learners, server, &ServerReactor::server) !=
           place.learners.end();
  };
  while (!comm::passed(deadline) && std::ranges::none_of(observer_->status().shards, is_learning)) {
    sleep_for({0.002});
  }
}

void Chaos::check_workers() {
  for (const auto& ledger : ledgers_) {
    if (const std::string problem = (*ledger)->problem.data(); !problem.empty()) {
      fail("a worker failed: " + problem);
    }
  }
}

/// Says where the shards are, so that it shows which one waits for whom.
void Chaos::fail(const std::string& what) {
  std::string places;
  const ClusterStatus status = observer_->status();
  for (std::size_t i = 0; i < status.shards.size(); ++i) {
    const ShardPlace& place = status.shards[i];
    places +=
        fmt::format("; shard {} in epoch {} on servers {}", i, place.epoch, to_text(place.chain));
    places += place.learners.empty() ? "" : fmt::format(" + {}", to_text(place.learners));
  }
  throw Error(ErrorKind::Peer, fmt::format("after {} kills: {}{}", result_.kills, what, places));
}

std::uint64_t Chaos::sum(SharedCount LifeLedger::*count) const {
  std::uint64_t sum = 0;
  for (const auto& ledger : ledgers_) {
    sum += (*ledger).operator->()->*count;
  }
  return sum;
}

bool Chaos::has_enough() const {
  return result_.kills >= options_.kills && sum(&LifeLedger::pushes) >= options_.pushes &&
         sum(&LifeLedger::reads) >= options_.reads;
}

void Chaos::check_stop() const {
  if (options_.should_stop && options_.should_stop()) {
    throw Error(ErrorKind::Peer,
                fmt::format("chaos was stopped after {} of {} kills; nothing was checked",
                            result_.kills, options_.kills));
  }
}

// --- Faults.

void Chaos::count_kill(ChaosRole role) {
  ++result_.kills;
  ++result_.kills_by_role.at(static_cast<std::size_t>(role));
}

void Chaos::count_pause(ChaosRole role) {
  ++result_.pauses;
  ++result_.pauses_by_role.at(static_cast<std::size_t>(role));
}

/// A chain of two has no middle: its tail then.
Chaos::Victim Chaos::server_that_is(ChaosRole role) {
  const ClusterStatus status = observer_->status();
  const std::vector<ServerReactor>& chain = status.shards.at(below(status.shards.size())).chain;
  if (role == ChaosRole::Head) {
    return {chain.front().server, role};
  }
  if (role == ChaosRole::Middle && chain.size() > 2) {
    return {chain.at(1).server, role};
  }
  return {chain.back().server, ChaosRole::Tail};
}

void Chaos::begin_kill(std::size_t server) {
  Strike strike{.kind = Strike::Kind::KillServer};
  for (const ShardPlace& place : observer_->status().shards) {
    strike.touched.push_back(std::ranges::find(place.chain, server, &ServerReactor::server) !=
                             place.chain.end());
  }
  strike.time = micros_now();
  strikes_.push_back(std::move(strike));
}

void Chaos::kill(const Victim& victim) {
  note(fmt::format("kill server {}, a {}", victim.server, to_text(victim.role)));
  begin_kill(victim.server);
  servers_[victim.server]->kill();
  count_kill(victim.role);
  wait_up_to(200);
  start_server(victim.server);
}

/// Kills it again while it gets the state of its shards back.
void Chaos::kill_rejoining(const Victim& victim) {
  kill(victim);
  wait_for_learner(victim.server);
  kill(victim);
  ++result_.faults_in_rejoins;
}

void Chaos::pause_rejoining(const Victim& victim) {
  kill(victim);
  wait_for_learner(victim.server);
  pause(victim);
  ++result_.faults_in_rejoins;
}

void Chaos::pause(const Victim& victim) {
  note(fmt::format("pause server {}, a {}", victim.server, to_text(victim.role)));
  begin_strike(Strike::Kind::Other);
  servers_[victim.server]->pause();
  count_pause(victim.role);
  wait_up_to(600);
  servers_[victim.server]->resume();
}

void Chaos::kill_coordinator() {
  Coordinator& coordinator = coordinators_[below(coordinators_.size())];
  note(fmt::format("kill the coordinator at {}", coordinator.address));
  begin_strike(Strike::Kind::Other);
  coordinator.process->kill();
  count_kill(ChaosRole::Coordinator);
  wait_up_to(200);
  start_coordinator(coordinator);
}

void Chaos::pause_coordinator() {
  const Coordinator& coordinator = coordinators_[below(coordinators_.size())];
  note(fmt::format("pause the coordinator at {}", coordinator.address));
  begin_strike(Strike::Kind::Other);
  coordinator.process->pause();
  count_pause(ChaosRole::Coordinator);
  wait_up_to(300);
  coordinator.process->resume();
}

void Chaos::kill_worker() {
  const std::size_t i = below(workers_.size());
  note(fmt::format("kill worker {}", i));
  (*ledgers_.at(workers_[i].life - 1))->has_left_clock = true;
  workers_[i].process->kill();  // no strike of its own: it may happen while the cluster recovers
  count_kill(ChaosRole::Worker);
  start_worker(i);
}

void Chaos::pause_worker() {
  const std::size_t i = below(workers_.size());
  note(fmt::format("pause worker {}", i));
  (*ledgers_.at(workers_[i].life - 1))->has_left_clock = true;
  begin_strike(Strike::Kind::Other);
  workers_[i].process->pause();
  count_pause(ChaosRole::Worker);
  wait_up_to(600);
  workers_[i].process->resume();
}

/// To random servers.
void Chaos::move_shard() {
  std::vector<std::uint64_t> to(servers_.size());
  std::iota(to.begin(), to.end(), 0);
  std::ranges::shuffle(to, random_);
  to.resize(options_.replicas);
  const std::size_t shard = below(options_.shards);
  note(fmt::format("move shard {} to servers {}", shard, fmt::join(to, " ")));
  ++result_.moves;
  begin_strike(Strike::Kind::MoveShard);
  observer_->move_shard(shard, to);
}

/// A move during which somebody will be struck.
void Chaos::begin_move() {
  move_shard();
  wait_up_to(30);
  ++result_.faults_in_moves;
}

// NOLINTNEXTLINE(readability-function-size): a line for each kind
void Chaos::strike() {
  if (acts_.empty()) {
    acts_ = all_acts();
    std::ranges::shuffle(acts_, random_);
  }
  const Act act = acts_.back();
  acts_.pop_back();
  const auto any_role = [this] { return static_cast<ChaosRole>(below(3)); };
  switch (act) {
    case Act::KillHead:
      return kill(server_that_is(ChaosRole::Head));
    case Act::KillMiddle:
      return kill(server_that_is(ChaosRole::Middle));
    case Act::KillTail:
      return kill(server_that_is(ChaosRole::Tail));
    case Act::KillRejoining:
      return kill_rejoining(server_that_is(any_role()));
    case Act::PauseRejoining:
      return pause_rejoining(server_that_is(any_role()));
    case Act::PauseHead:
      return pause(server_that_is(ChaosRole::Head));
    case Act::PauseMiddle:
      return pause(server_that_is(ChaosRole::Middle));
    case Act::PauseTail:
      return pause(server_that_is(ChaosRole::Tail));
    case Act::KillCoordinator:
      return kill_coordinator();
    case Act::PauseCoordinator:
      return pause_coordinator();
    case Act::KillWorker:
      return kill_worker();
    case Act::PauseWorker:
      return pause_worker();
    case Act::Move:
      return move_shard();
    case Act::MoveAndKill:
      begin_move();
      return kill(server_that_is(any_role()));
    case Act::MoveAndPause:
      begin_move();
      return pause(server_that_is(any_role()));
    case Act::MoveAndKillCoordinator:
      begin_move();
      return kill_coordinator();
  }
}

// --- The run.

/// A worker whose push is not acknowledged would leave it open whether it was applied.
void Chaos::stop_workers() {
  const comm::Deadline deadline = comm::deadline_in(kRecovery);
  for (const Worker& worker : workers_) {
    (*ledgers_.at(worker.life - 1))->stop = true;
  }
  for (const Worker& worker : workers_) {
    while (!(*ledgers_.at(worker.life - 1))->is_finished) {
      check_stop();
      if (comm::passed(deadline)) {
        fail("a worker has not finished its pushes");
      }
      sleep_for({0.01});
    }
  }
  check_workers();
}

ChaosResult Chaos::run() {
  const comm::Clock::time_point begin = comm::Clock::now();
  for (Coordinator& coordinator : coordinators_) {
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

}  // namespace

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
  return Chaos(options).run();
}

}  // namespace trireme::ps
