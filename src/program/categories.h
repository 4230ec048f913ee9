// The purpose of each value of a step. Callable from any thread.
#pragma once

#include <vector>

#include "graph/outline.h"
#include "trireme/program.h"

namespace trireme {

/// By value, its category, by its producer and its readers; see Category.
[[nodiscard]] std::vector<Category> categories_of(const Outline& outline);

}  // namespace trireme
