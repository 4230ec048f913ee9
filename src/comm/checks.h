// Whether calls are checked: that all ranks called the same, that nobody has died or stopped. Always, but
// in the build that bench/checks compares with to see what it costs (CMake's TRIREME_COMM_CHECKS=OFF),
// which hangs or computes nonsense where this one says who is at fault.
#pragma once

namespace trireme::comm {

inline constexpr bool kChecks = TRIREME_COMM_CHECKS != 0;

}  // namespace trireme::comm
