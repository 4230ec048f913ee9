// The error of a file that cannot be used.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::train {

/// Throws Error(Input): "PATH: PROBLEM".
[[noreturn]] inline void throw_input_error(std::string_view path, const std::string& problem) {
  throw Error(ErrorKind::Input, fmt::format("{}: {}", path, problem));
}

}  // namespace trireme::train
