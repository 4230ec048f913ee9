// A simulated cluster: the real state machines of coordinator, servers and clients, on a network that drops, duplicates,
// delays and reorders, with nodes that crash, pause and restart and whose clocks run at different rates. A server is a
// process with one or two nodes, which crash and restart together. Everything follows from the seed. Checks that no push is lost or doubled, that the history of every key is linearizable, that
// workers read their own writes, the staleness bound, and that all operations finish once the faults end.
#pragma once

#include <cstdint>
#include <string>

#include "ps/protocol/ids.h"

namespace trireme::ps {

struct SimulationOptions {
  std::uint64_t seed = 1;
  bool trace = false;  ///< print every event
};

struct SimulationResult {
  std::string problem;  ///< "" if everything held
  std::uint64_t events = 0;
  std::uint64_t crashes = 0;
  std::uint64_t pauses = 0;
  std::uint64_t cuts = 0;  ///< of the connection with the coordinator
  std::uint64_t starvations = 0;
  std::uint64_t moves = 0;
  std::uint64_t leaves = 0;  ///< restarts of servers that had handed over their shards
  std::uint64_t epochs = 0;  ///< sum over the shards
  std::uint64_t acknowledged = 0;
  std::uint64_t reads = 0;
  std::uint64_t iterations = 0;
};

[[nodiscard]] SimulationResult simulate(const SimulationOptions& options);

}  // namespace trireme::ps
