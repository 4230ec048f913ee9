// What each buffer of a program is for. Any thread.
#pragma once

#include "trireme/program.h"

namespace trireme {

/// Gives every buffer its category, by what makes it and what reads it; see Category.
void categorize(Program& program);

}  // namespace trireme
