// Combine and Stores: what the loops over data are asked to do. Plain data.
#pragma once

#include <cstdint>

#include "trireme/comm_call.h"
#include "trireme/tensor.h"

namespace trireme::comm {

/// Where results go: through the caches, or past them straight to memory. Past is faster for data
/// larger than the caches, that nobody reads soon.
enum class Stores : std::uint8_t { Cached, Streaming };

/// What is done to elements.
struct Combine {
  DType dtype = DType::F32;
  Reduction reduction = Reduction::Sum;  ///< Average adds up, like Sum: see divide_by
  const UserReduction* user = nullptr;   ///< instead of `reduction`
  Order order = Order::Any;
  /// Results are divided by this before they are rounded and stored. For the last step of an
  /// Average: the number of ranks. At least 1; stays 1 with `user`.
  std::int64_t divide_by = 1;
};

}  // namespace trireme::comm
