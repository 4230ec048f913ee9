#include "execute.h"

#include "launch_hosts.h"
#include "rank_run.h"
#include "trireme/comm.h"

namespace trireme::fuzz {
namespace {

TransportKind kind_of(Transport transport) {
  switch (transport) {
    case Transport::InProcess:
      return TransportKind::InProcess;
    case Transport::SharedMemory:
      return TransportKind::SharedMemory;
    case Transport::Tcp:
    case Transport::Tls:
      return TransportKind::Tcp;
    case Transport::Ucx:
      return TransportKind::Ucx;
    case Transport::Mixed:
    case Transport::MixedTls:
      return TransportKind::Automatic;
  }
  return TransportKind::Automatic;
}

/// A host of 10 GB/s on which messages take 2 us and direct operations win.
HostCosts plain_costs() {
  return {.cores = 4,
          .messages = {{"shm", {2e-6}, {1e-9}}, {"in-process", {2e-6}, {1e-9}}},
          .combining = {{"f32", {1e-10}}},
          .waits = {{4, {1e-6}, {1e-6}}, {8, {1e-5}, {2e-5}}},
          .copy = {{{1}, {1e-10}, {1e-10}}},
          .combine = {{{1}, {1e-10}, {1e-10}}},
          .stage = {1e-10},
          .fetch = {1e-10},
          .peek = {"system", {1e-6}, {1e-10}}};
}

/// As if messages were free and waiting took a second.
HostCosts chatty_costs() {
  HostCosts costs = plain_costs();
  costs.messages = {{"shm", {1e-9}, {1e-12}}, {"in-process", {1e-9}, {1e-12}}};
  costs.waits = {{4, {1e-6}, {1.0}}};
  return costs;
}

/// Patient, because the machine may be loaded: the supervisor's watchdog ends hangs.
WorldOptions options_of(const Sequence& sequence) {
  WorldOptions options;
  options.deadline = Seconds{30};
  options.transport = kind_of(sequence.transport);
  options.encrypt =
      sequence.transport == Transport::Tls || sequence.transport == Transport::MixedTls;
  options.checksums = sequence.checksums;
  options.connections = sequence.connections;
  if (sequence.costs != Sequence::Costs::None) {
    options.costs = sequence.costs == Sequence::Costs::Plain ? plain_costs() : chatty_costs();
  }
  return options;
}

/// 0 if every rank returned; throws what a rank on a thread threw.
int run_ranks(const Sequence& sequence, const std::function<void(World&)>& body) {
  const WorldOptions options = options_of(sequence);
  if (has_hosts(sequence.transport)) {
    return launch_on_hosts(sequence.hosts, body, options);
  }
  if (sequence.transport != Transport::InProcess) {
    return launch(sequence.ranks, body, options);
  }
  run_threads(sequence.ranks, body, options);
  return 0;
}

}  // namespace

void execute(const Sequence& sequence, Board& board) {
  try {
    const auto body = [&](World& world) { RankRun(world, sequence, board).run(); };
    if (run_ranks(sequence, body) != 0) {
      board.report("a rank failed");
    }
  } catch (const std::exception& error) {
    board.report(error.what());
  }
  board.compare_hashes(sequence);
}

bool is_available(Transport transport) {
  return has_hosts(transport) ? can_make_hosts() : is_built(kind_of(transport));
}

std::vector<Transport> available_transports() {
  std::vector<Transport> available = all_transports();
  std::erase_if(available, [](Transport transport) { return !is_available(transport); });
  return available;
}

std::int64_t count_checks(const Sequence& sequence) {
  std::int64_t checks = 0;
  for (const Step& step : sequence.steps) {
    if (const auto* call = std::get_if<Collective>(&step.action)) {
      checks += static_cast<std::int64_t>(call->sides.size()) * call->repeat;
    } else if (std::holds_alternative<Message>(step.action)) {
      checks += 2;
    }
  }
  return checks;
}

}  // namespace trireme::fuzz
