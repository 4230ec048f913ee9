// Waterfall: breaks the hardware's peak down to MFU in a traced step. Callable from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/trace.h"
#include "trireme/units.h"

namespace trireme {

/// Each part is a share of the time that all ranks together had in the step, at peak; all parts and `mfu` add up to 1.
/// Example: with a step of 10 ms, 2 ms of waiting for an all-reduce on each rank are 0.2 in `collectives`.
struct Waterfall {
  std::int64_t step = 0;
  int ranks = 0;        ///< in the trace; the parts are means over them
  double messages = 0;  ///< waiting for sends and receives: communication that was not overlapped
  double collectives = 0;         ///< likewise, for collectives
  double gaps = 0;                ///< neither running a kernel nor waiting
  double memory_bound = 0;        ///< kernels without matrix products
  double recomputed_kernels = 0;  ///< likewise, of activation recomputation
  /// Time in kernels with matrix products beyond what they need at peak. Negative if they were faster than the peak
  /// that was measured.
  double products = 0;
  double attention = 0;            ///< likewise, in attention kernels; not counted in `products`
  double recomputed_products = 0;  ///< HFU - MFU: recomputed, or for empty expert slots
  double mfu = 0;

  [[nodiscard]] double exposed_communication() const { return messages + collectives; }
  [[nodiscard]] double recomputation() const { return recomputed_kernels + recomputed_products; }
  [[nodiscard]] double hfu() const { return mfu + recomputed_products; }

  friend bool operator==(const Waterfall&, const Waterfall&) = default;
};

/// The speed of a traced step.
struct TracedSpeed {
  std::int64_t step = 0;
  Seconds step_time{};  ///< work after this is not counted
  double mfu = 0;
  double hfu = 0;
};

/// nullopt if the trace does not identify the kernels with matrix products.
[[nodiscard]] std::optional<Waterfall> waterfall_of(const Trace& trace, const TracedSpeed& speed);

}  // namespace trireme
