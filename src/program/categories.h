// The purpose of each buffer of a program. Callable from any thread.
#pragma once

#include "trireme/program.h"

namespace trireme {

/// Assigns every buffer its category, by its producer and its readers; see Category.
void categorize(Program& program);

}  // namespace trireme
