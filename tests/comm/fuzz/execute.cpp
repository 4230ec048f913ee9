#include "execute.h"

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
  }
  return TransportKind::Automatic;
}

/// Patient, as the machine may be loaded: the supervisor's watchdog ends what hangs.
WorldOptions options_of(const Sequence& sequence) {
  WorldOptions options;
  options.deadline = Seconds{30};
  options.transport = kind_of(sequence.transport);
  options.encrypt = sequence.transport == Transport::Tls;
  options.checksums = sequence.checksums;
  options.connections = sequence.connections;
  return options;
}

}  // namespace

void execute(const Sequence& sequence, Board& board) {
  const auto body = [&](World& world) { RankRun(world, sequence, board).run(); };
  const WorldOptions options = options_of(sequence);
  try {
    if (sequence.transport == Transport::InProcess) {
      run_threads(sequence.ranks, body, options);
    } else if (launch(sequence.ranks, body, options) != 0) {
      board.report("launch() failed");
    }
  } catch (const std::exception& error) {
    board.report(error.what());
  }
  board.compare_hashes(sequence);
}

std::int64_t count_checks(const Sequence& sequence) {
  std::int64_t checks = 0;
  for (const Step& step : sequence.steps) {
    if (const auto* call = std::get_if<Collective>(&step.action)) {
      checks += static_cast<std::int64_t>(call->sides.size());
    } else if (std::holds_alternative<Message>(step.action)) {
      checks += 2;
    }
  }
  return checks;
}

}  // namespace trireme::fuzz
