// Values: what every rank contributes to a step, and what must come out, computed plainly.
//
// Inputs are pure functions of the step's key, the place and the index, so that any rank can compute
// any other's. Where values are Exact they are chosen so that no order of combining rounds: integers
// wrap, floats are small integers or powers of two. All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sequence.h"

namespace trireme::fuzz {

/// Mixes the bits of two numbers into one that looks random.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b);

/// A collective with what its values depend on.
struct CallView {
  const Collective& call;
  std::uint64_t key = 0;
  Rank ranks = 1;
};

/// Elements of the input and the output of the rank at this place, where it has them.
[[nodiscard]] std::int64_t input_elements(const CallView& view, Rank place);
[[nodiscard]] std::int64_t output_elements(const CallView& view, Rank place);
/// Whether the operation reads or writes the buffer there: only the root's, of some.
[[nodiscard]] bool reads_input(const Collective& call, Rank place);
[[nodiscard]] bool writes_output(const Collective& call, Rank place);
/// Where the block of this place begins in the whole vector, in elements.
[[nodiscard]] std::int64_t block_offset(const CallView& view, Rank place);

/// Elements begin, begin + 1, … of what the rank at this place contributes.
void fill_input(const CallView& view, Rank place, std::int64_t begin, std::span<std::byte> out);

/// How many elements of `got` differ from the right output, and the first of them in words.
struct Differences {
  std::int64_t count = 0;
  std::string first;
};
[[nodiscard]] Differences compare_output(const CallView& view, Rank place,
                                         std::span<const std::byte> got);
/// The same for bytes that were to stay, or to arrive, as fill_input gives them.
[[nodiscard]] Differences compare_input(const CallView& view, Rank place, std::int64_t begin,
                                        std::span<const std::byte> got);

/// The reduction of calls with Combiner::User. Lives as long as the program.
[[nodiscard]] const UserReduction& user_reduction(DType dtype);

/// The data of a message as a call to the functions above: a broadcast by its sender.
[[nodiscard]] Collective as_broadcast(const Message& message);

}  // namespace trireme::fuzz
