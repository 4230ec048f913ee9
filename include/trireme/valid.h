// Validation of values. Every type that can be invalid has `problems(value)`, which describes the errors in words and
// enables require_valid(). Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/error.h"

namespace trireme {

/// Throws Error(kind) with the first problem, prefixed with "what: " unless `what` is empty. Does nothing if there is
/// none.
void throw_first(const std::vector<std::string>& problems, ErrorKind kind, std::string_view what);

/// Throws Error(Usage) with the first of problems(value), if there is one. Parsers pass ErrorKind::Input and the name
/// of their input: "host costs".
template <class T>
void require_valid(const T& value, ErrorKind kind = ErrorKind::Usage, std::string_view what = {}) {
  throw_first(problems(value), kind, what);
}

}  // namespace trireme
