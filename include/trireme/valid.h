// Whether a value is valid. Every value that can be wrong as a whole has `problems(value)`, which returns what is wrong
// in words, and so has require_valid(). Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/error.h"

namespace trireme {

/// Throws Error(kind) with the first problem, after "what: " unless `what` is empty. Does nothing if there is none.
void throw_first(const std::vector<std::string>& problems, ErrorKind kind, std::string_view what);

/// Throws Error(Usage) with the first of problems(value), if there is one. Parsers pass ErrorKind::Input and what they
/// read: "host costs".
template <class T>
void require_valid(const T& value, ErrorKind kind = ErrorKind::Usage, std::string_view what = {}) {
  throw_first(problems(value), kind, what);
}

}  // namespace trireme
