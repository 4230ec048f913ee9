// Ongoing: one rank's part in a step, from its buffers to the check of the result.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "buffer.h"
#include "sequence.h"
#include "trireme/comm.h"

namespace trireme::fuzz {

struct Ongoing {
  const Step* step = nullptr;
  std::size_t index = 0;  ///< of the step
  Rank place = 0;         ///< of this rank in the step's group
  int round = 0;          ///< of a call that is repeated
  Buffer input{};         ///< in place: the one buffer; of messages: the data
  Buffer output{};
  Call call{};          ///< of collectives
  bool hashed = false;  ///< its bits are compared across ranks
  Pending pending{};    ///< last, because it must complete before the buffers are destroyed
};

[[nodiscard]] const Side& side_of(const Ongoing& ongoing);

/// Creates the buffers and, for collectives, the call; fills the input.
void prepare(World& world, Ongoing& ongoing);
/// Reuses the buffers with new values.
void prepare_next_round(Ongoing& ongoing);
/// Throws std::runtime_error if anything in the buffers or around them is wrong.
void check(const Ongoing& ongoing);

}  // namespace trireme::fuzz
