// A traced step by rank: its activities and waits over time. Views into a Trace, which must outlive them. Callable from
// any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/trace.h"
#include "trireme/units.h"

namespace trireme {

/// A communication op in flight, and its lane: those in flight together have different ones.
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

/// A number among the arguments of a span; 0 if there is none.
[[nodiscard]] double number_of(const Trace::Span& span, std::string_view key);
/// Whether kernels state how much of their work is matrix products.
[[nodiscard]] bool has_products(const Trace& trace);

/// How a rank spent the time from the beginning of the step to a moment, in seconds.
struct RankTimes {
  std::string name{};
  double products = 0;      ///< in kernels with matrix products, other than attention
  double attention = 0;     ///< in attention kernels with matrix products
  double memory_bound = 0;  ///< in other kernels
  double recomputed = 0;    ///< in other kernels that repeat forward kernels
  double messages = 0;      ///< waiting for sends and receives
  double collectives = 0;   ///< waiting for collectives

  [[nodiscard]] double kernels() const { return products + attention + memory_bound + recomputed; }
  [[nodiscard]] double waiting() const { return messages + collectives; }
};
[[nodiscard]] std::vector<RankTimes> times_of(const std::vector<TracedRank>& ranks, Seconds until);
/// The mean over the ranks, which must not be empty.
[[nodiscard]] RankTimes mean_of(const std::vector<RankTimes>& ranks);

/// The share of attention in the matrix-product FLOPs of all kernels; 0 if there are none.
[[nodiscard]] double attention_share(const std::vector<TracedRank>& ranks);

}  // namespace trireme
