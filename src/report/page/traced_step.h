// Totals of a traced step: the ranks' computation, messages and memory use. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/traced_ranks.h"
#include "trireme/trace.h"
#include "trireme/units.h"

namespace trireme::report {

/// When the last span of any rank ends.
[[nodiscard]] Seconds end_of(const Trace& trace);

/// An operation between ranks, over all ranks.
struct OpTotals {
  std::string op{};
  std::string group{};  ///< of ranks: "data"; "" for messages
  std::int64_t calls = 0;
  double bytes = 0;    ///< sent
  double seconds = 0;  ///< in flight
};
/// The most bytes first.
[[nodiscard]] std::vector<OpTotals> exchanged(const std::vector<TracedRank>& ranks);
/// The same for kernels, slowest first; `group` is the phase, `bytes` the bytes read and written.
[[nodiscard]] std::vector<OpTotals> computed(const std::vector<TracedRank>& ranks);

/// The memory of a rank by category, from `time` until the next moment.
struct MemoryMoment {
  double time = 0;
  std::vector<double> bytes{};  ///< in the order of MemoryCourse::categories

  [[nodiscard]] double total() const;
};
struct MemoryCourse {
  std::vector<std::string> categories{};
  std::vector<MemoryMoment> moments{};

  /// The first moment with the largest total. Requires a moment.
  [[nodiscard]] const MemoryMoment& peak() const;
};
/// Empty if the trace has no memory.
[[nodiscard]] MemoryCourse memory_of(const TracedRank& rank);

}  // namespace trireme::report
