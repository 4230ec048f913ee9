// Admission: how many connections a listener holds that have not shown the job's secret yet, and for
// how long. So somebody who only connects cannot take all descriptors of the process. Any thread.
#pragma once

#include <cstddef>

#include "comm/net/deadline.h"

namespace trireme::comm {

/// Connections that a listener holds before they have authenticated: an eighth of what the process may
/// open (`ulimit -n`), 8 to 1024. Those above it wait in the system's queue.
[[nodiscard]] std::size_t most_unauthenticated();

/// With that many, the oldest is dropped for the next, but not before this age: a peer that is merely
/// slow gets the time to finish.
inline constexpr Seconds kLeastHandshakeTime{0.1};

/// How long a peer may take to authenticate where there is room.
inline constexpr Seconds kMostHandshakeTime{5.0};

}  // namespace trireme::comm
