// When communication must be complete. Callable from any thread.
#pragma once

#include <cstdint>

#include "base/indexed_vector.h"
#include "graph/outline.h"

namespace trireme {

/// By node, for a communication op: the first node that needs its result, counting views as the result itself; -1 for
/// others. A send is waited for together with the receive that it names. Communication whose result is needed much later
/// is waited for once as much more has started as a model block communicates: otherwise all its inputs, and its scratch,
/// would be kept until the end of the step.
[[nodiscard]] IndexedVector<std::int32_t, std::int32_t> find_waits(const Outline& outline);

}  // namespace trireme
