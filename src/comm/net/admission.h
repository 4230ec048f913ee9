// Admission: how many unauthenticated connections a listener holds, and for how long, so that a client that never
// authenticates cannot exhaust the process's descriptors. Callable from any thread.
#pragma once

#include <cstddef>

#include "comm/net/deadline.h"

namespace trireme::comm {

/// The maximum number of unauthenticated connections of a listener: an eighth of the descriptor limit (`ulimit -n`), 8
/// to 1024. Further ones wait in the kernel's backlog.
[[nodiscard]] std::size_t most_unauthenticated();

/// At that limit, the oldest is dropped for the next, but not before this age, so that a merely slow peer has time to
/// finish.
inline constexpr Seconds kMinHandshakeTime{0.1};

/// How long a peer may take to authenticate below that limit.
inline constexpr Seconds kMaxHandshakeTime{5.0};

}  // namespace trireme::comm
