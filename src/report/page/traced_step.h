// A traced step by rank: what each did when, what it waited for, what it sent, and how much memory it used. Views into a
// Trace, which must outlive them. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/trace.h"
#include "trireme/units.h"

namespace trireme::report {

/// An exchange in flight, and its lane: those in flight together have different ones.
struct TracedExchange {
  const Trace::Span* span = nullptr;
  int lane = 0;
};

struct TracedRank {
  std::string name{};  ///< "rank 0"
  std::vector<const Trace::Span*> kernels{};
  std::vector<const Trace::Span*> waits{};  ///< between kernels, for an exchange
  std::vector<TracedExchange> exchanges{};
  std::vector<const Trace::Counter*> counters{};
};
/// The ranks in the order of the trace.
[[nodiscard]] std::vector<TracedRank> traced_ranks(const Trace& trace);

/// When the last span of any rank ends.
[[nodiscard]] Seconds end_of(const Trace& trace);

/// A number among the arguments of a span; 0 if there is none.
[[nodiscard]] double number_of(const Trace::Span& span, std::string_view key);
/// Whether kernels state how much of their work is matrix products.
[[nodiscard]] bool has_products(const Trace& trace);

/// How a rank spent the time from the beginning of the step to a moment.
struct RankTimes {
  std::string name{};
  double products = 0;     ///< seconds in kernels with matrix products
  double others = 0;       ///< in other kernels
  double messages = 0;     ///< waiting for sends and receives
  double collectives = 0;  ///< waiting for collectives

  [[nodiscard]] double kernels() const { return products + others; }
  [[nodiscard]] double waiting() const { return messages + collectives; }
};
[[nodiscard]] std::vector<RankTimes> times_of(const std::vector<TracedRank>& ranks, Seconds until);
/// The mean over the ranks, which must not be empty.
[[nodiscard]] RankTimes mean_of(const std::vector<RankTimes>& ranks);

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
/// The same for kernels, the most time first; `group` is the phase, `bytes` what they read and write.
[[nodiscard]] std::vector<OpTotals> computed(const std::vector<TracedRank>& ranks);

/// The memory of a rank by category, from the moment `time` on.
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
