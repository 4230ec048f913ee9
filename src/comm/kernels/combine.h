// Combine and Stores: the parameters of the loops over data. Plain data.
#pragma once

#include <cstdint>

#include "trireme/comm_call.h"
#include "trireme/tensor.h"

namespace trireme::comm {

/// How results are stored: through the caches, or bypassing them. Streaming is faster for data that
/// exceeds the caches and is not read soon.
enum class Stores : std::uint8_t { Cached, Streaming };

/// The operation on elements.
struct Combine {
  DType dtype = DType::F32;
  Reduction reduction = Reduction::Sum;  ///< Average sums, like Sum: see divide_by
  const UserReduction* user = nullptr;   ///< instead of `reduction`
  Order order = Order::Any;
  /// Results are divided by this before they are rounded and stored. For the last step of an
  /// Average: the number of ranks. At least 1; always 1 with `user`.
  std::int64_t divide_by = 1;
};

}  // namespace trireme::comm
