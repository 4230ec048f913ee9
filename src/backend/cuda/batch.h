// Kernels that wait to be enqueued together: updates of many parameters in one launch. A kernel joins the pending ones
// if they run the same function and are independent of it: it writes nothing that they read or write, and reads nothing
// that they write. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/kernel.h"

namespace trireme::cuda {

/// Where a kernel's operands are.
struct Footprint {
  struct Range {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  std::vector<Range> reads{};
  std::vector<Range> writes{};
};

[[nodiscard]] Footprint footprint_of(const KernelRequest& request, const KernelMemory& memory);
/// Whether two kernels give the same results in either order, and at the same time.
[[nodiscard]] bool are_independent(const Footprint& a, const Footprint& b);

class Batch {
 public:
  using Function = void (*)(std::span<const BatchItem>, cudaStream_t);

  /// Enqueues the pending kernels first if the kernel cannot join them. `item` and `footprint` must stay until flush().
  void add(Function function, const BatchItem& item, const Footprint& footprint,
           cudaStream_t stream);
  /// Enqueues what waits.
  void flush(cudaStream_t stream);
  /// Forgets what waits.
  void clear();

 private:
  Function function_ = nullptr;
  std::vector<BatchItem> items_;
  std::vector<const Footprint*> footprints_;  ///< by item; owned by the kernels
};

}  // namespace trireme::cuda
