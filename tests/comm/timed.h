// Bounds on time in tests, on machines that may be busy with something else.
#pragma once

#include <algorithm>
#include <limits>

namespace trireme::test {

/// `action` tells how many seconds something took. If that is not below `bound`, twice again: a machine that had no time
/// for this process once says nothing of the code. Returns the least.
template <class Action>
double fastest_of_three(double bound, const Action& action) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3 && fastest >= bound; ++i) {
    fastest = std::min<double>(fastest, action());
  }
  return fastest;
}

}  // namespace trireme::test
