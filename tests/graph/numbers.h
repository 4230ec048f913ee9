// A list of integers, as an attribute holds it: a shape, an order of axes.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::testing {

using Numbers = std::vector<std::int64_t>;

}  // namespace trireme::testing
