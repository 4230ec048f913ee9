// Runs a repartition on threads of this process and counts the bytes that ranks send. One call at a time per thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trireme/device.h"
#include "trireme/repartition.h"

namespace trireme::measure {

struct RepartitionRun {
  std::vector<std::int64_t> sent{};  ///< bytes of messages, by rank
  double largest_error = 0;          ///< of any element of any rank; partial results are summed
};

/// Each rank starts with its part of a matrix of small integers and runs its program on its own device. Collectives use
/// the algorithms of the prediction.
[[nodiscard]] RepartitionRun run_repartition(
    const predict::Repartition& repartition,
    const std::function<std::unique_ptr<Device>()>& make_device);

}  // namespace trireme::measure
