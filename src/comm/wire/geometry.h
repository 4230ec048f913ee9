// Geometry: a call's sizes as this rank sees them, checked: which elements of which buffer belong to which rank.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/comm_call.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// How an operation's data is laid out.
enum class Form : std::uint8_t {
  Vector,   ///< one vector, of the same length on every rank: broadcast, reduce, all-reduce
  Blocks,   ///< a vector in blocks, one per rank: scatter, gather, all-gather, reduce-scatter
  Pairs,    ///< a block for each pair of ranks: all-to-all
  Nothing,  ///< barrier
};
[[nodiscard]] Form form_of(Operation operation);

struct Geometry {
  Form form = Form::Nothing;
  std::int64_t element_bytes = 1;
  /// Elements of the vector that is whole on one side; for pairs the elements that one rank sends, or -1 if every pair
  /// has its own size.
  std::int64_t count = 0;
  /// Blocks: the position of block r in the whole vector. Pairs: the data for rank r in this rank's input. Equal blocks
  /// are not listed.
  std::vector<Extent> listed{};
  /// Pairs with individual sizes: what rank r has for this rank, in its output.
  std::vector<Extent> received{};
  std::int64_t equal_block = 0;

  [[nodiscard]] Extent block(Rank r) const {
    return listed.empty() ? Extent{r * equal_block, equal_block} : listed[r];
  }
  /// Where rank r's data for this rank goes in the output of an all-to-all.
  [[nodiscard]] Extent receive_block(Rank r) const {
    return received.empty() ? block(r) : received[r];
  }
  [[nodiscard]] std::int64_t longest_block(Rank ranks) const;
  [[nodiscard]] std::int64_t bytes() const { return count * element_bytes; }
};

/// The divisor of the combined result: the number of ranks for an average.
[[nodiscard]] inline std::int64_t divisor(const CallOptions& options, Rank ranks) {
  return options.user == nullptr && options.reduction == Reduction::Average ? ranks : 1;
}

/// Throws Error(Usage) if the buffers do not fit the operation: the message names the operation, the rank, and the
/// sizes.
[[nodiscard]] Geometry make_geometry(const Call& call, Rank rank, Rank ranks);

}  // namespace trireme::comm
