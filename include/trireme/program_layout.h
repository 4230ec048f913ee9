// The layout of a program's buffers in its arena. Callable from any thread.
#pragma once

#include "trireme/program.h"
#include "trireme/units.h"

namespace trireme {

/// The same program with every buffer at a multiple of `alignment`, as its device requires. Its arena may be larger.
[[nodiscard]] Program aligned_to(Program program, Bytes alignment);

}  // namespace trireme
