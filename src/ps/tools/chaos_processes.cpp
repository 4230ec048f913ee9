// Starting the processes, and waiting for them.
#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "ps/tools/chaos_run.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

void pause_for(Seconds time) {
  std::this_thread::sleep_for(comm::duration(time));
}

}  // namespace

ChaosRun::ChaosRun(const ChaosOptions& options)
    : options_(options),
      random_(options.seed),
      secret_(comm::Secret::random().hex()),
      coordinators_(options.membership.empty() ? 1 : 2),
      servers_(options.servers),
      workers_(options.workers),
      roster_(roster_file(options.folder)) {
  for (CoordinatorProcess& coordinator : coordinators_) {
    coordinator.address = comm::to_text(comm::listen_on().address);
  }
  coordinator_ = options.membership.empty() ? coordinators_[0].address : options.membership;
}

std::unique_ptr<ChildProcess> ChaosRun::start(std::vector<std::string> arguments) const {
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

void ChaosRun::start_coordinator(CoordinatorProcess& coordinator) const {
  const bool is_elected = !options_.membership.empty();
  coordinator.process =
      start({"serve", "--role", "coordinator", "--listen", coordinator.address, "--replicas",
             fmt::format("{}", options_.replicas), "--shards", fmt::format("{}", options_.shards),
             "--min-servers", fmt::format("{}", options_.servers),
             is_elected ? "--membership" : "--state",
             is_elected ? options_.membership : options_.folder + "/coordinator.state"});
}

void ChaosRun::start_server(std::size_t i) {
  servers_[i] = start({"serve", "--number", fmt::format("{}", i), "--reactors",
                       fmt::format("{}", options_.reactors), "--coordinator", coordinator_});
}

void ChaosRun::start_worker(std::size_t i) {
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

/// Not before a failure would have been noticed: until then the coordinator believes that all is well.
void ChaosRun::wait_until_healthy() {
  check_stop();
  pause_for({1.3 * options_.lease.count});
  const comm::Deadline deadline = comm::deadline_in(kChaosRecovery);
  while (!observer_->status().is_healthy) {
    check_stop();
    check_workers();
    if (comm::passed(deadline)) {
      fail(fmt::format("the cluster has not recovered within {}", to_text(kChaosRecovery)));
    }
    pause_for({0.01});
  }
}

/// Until the server receives the state of a shard, or has.
void ChaosRun::wait_for_learner(std::size_t server) {
  const comm::Deadline deadline = comm::deadline_in({4 * options_.lease.count});
  const auto is_learning = [&](const ShardPlace& place) {
    return std::ranges::find(place.learners, server, &ServerReactor::server) !=
           place.learners.end();
  };
  while (!comm::passed(deadline) && std::ranges::none_of(observer_->status().shards, is_learning)) {
    pause_for({0.002});
  }
}

void ChaosRun::check_workers() {
  for (const auto& ledger : ledgers_) {
    if (const std::string problem = (*ledger)->problem.data(); !problem.empty()) {
      fail("a worker failed: " + problem);
    }
  }
}

/// Says where the shards are, so that it shows which one waits for whom.
void ChaosRun::fail(const std::string& what) {
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

std::uint64_t ChaosRun::sum(SharedCount LifeLedger::*count) const {
  std::uint64_t sum = 0;
  for (const auto& ledger : ledgers_) {
    sum += (*ledger).operator->()->*count;
  }
  return sum;
}

bool ChaosRun::has_enough() const {
  return result_.kills >= options_.kills && sum(&LifeLedger::pushes) >= options_.pushes &&
         sum(&LifeLedger::reads) >= options_.reads;
}

void ChaosRun::check_stop() const {
  if (options_.should_stop && options_.should_stop()) {
    throw Error(ErrorKind::Peer,
                fmt::format("chaos was stopped after {} of {} kills; nothing was checked",
                            result_.kills, options_.kills));
  }
}

void ChaosRun::wait_up_to(std::size_t milliseconds) {
  pause_for({static_cast<double>(below(milliseconds)) / 1000});
}

}  // namespace trireme::ps
