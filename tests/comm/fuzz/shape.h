// The shape of a call: which rank reads and writes how much, and which parts are copied from where.
//
// Pure functions; any thread may call them.
#pragma once

#include <cstdint>
#include <vector>

#include "sequence.h"

namespace trireme::fuzz {

/// A collective, and all that its values depend on.
struct CallView {
  const Collective& call;
  std::uint64_t key = 0;
  Rank ranks = 1;
};

/// Elements of the input and the output of the rank at this place, if it has them.
[[nodiscard]] std::int64_t input_elements(const CallView& view, Rank place);
[[nodiscard]] std::int64_t output_elements(const CallView& view, Rank place);
/// Whether the operation uses the buffer there: for some operations only the root's.
[[nodiscard]] bool reads_input(const Collective& call, Rank place);
[[nodiscard]] bool writes_output(const Collective& call, Rank place);
/// Where the block of this place begins in the whole vector, in elements.
[[nodiscard]] std::int64_t block_offset(const CallView& view, Rank place);

/// A range of an output that is a copy of a range of some rank's input.
struct Copied {
  std::int64_t length = 0;
  Rank source = 0;
  std::int64_t begin = 0;  ///< in the input
};
/// The parts of the output there, in order. Not for operations that combine.
[[nodiscard]] std::vector<Copied> copies(const CallView& view, Rank place);

/// The data of a message as a call: a broadcast by its sender.
[[nodiscard]] Collective as_broadcast(const Message& message);

}  // namespace trireme::fuzz
