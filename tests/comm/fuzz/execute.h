// Executes sequences: starts the ranks, has each run its projection of the steps and check all
// results.
#pragma once

#include <cstdint>
#include <vector>

#include "board.h"
#include "sequence.h"

namespace trireme::fuzz {

/// Runs the sequence in this process or its children; reports problems on the board. May crash or
/// hang: see run_apart() in supervise.h. Call it before creating any thread.
void execute(const Sequence& sequence, Board& board);

/// Whether this build and this machine support it: ucx needs a library, hosts need root.
[[nodiscard]] bool is_available(Transport transport);
[[nodiscard]] std::vector<Transport> available_transports();

/// The number of operations that are checked, one for each rank's part in a call or message.
[[nodiscard]] std::int64_t count_checks(const Sequence& sequence);

}  // namespace trireme::fuzz
