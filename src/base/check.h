// TRIREME_CHECK: for invariants that only a bug in Trireme can violate. Never for a caller's
// mistake (throw Error for that).
#pragma once

#include <string>

#include "trireme/error.h"

namespace trireme {

/// Throws Bug.
[[noreturn]] void fail_check(const char* condition, const char* file, int line,
                             const std::string& detail);

}  // namespace trireme

/// Throws Bug with the condition, the location and the detail if the condition does not hold.
/// Always enabled.
#define TRIREME_CHECK(condition, detail)                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      ::trireme::fail_check(#condition, __FILE__, __LINE__, (detail)); \
    }                                                                  \
  } while (false)
