// The error of a file or folder that cannot be read.
#pragma once

#include <string>

#include "trireme/error.h"

namespace trireme {

/// For an errno value: Input if the path is wrong or not accessible, System if the machine is at fault.
[[nodiscard]] ErrorKind kind_of_path_error(int reason);

/// Throws "cannot read 'PATH': REASON" of that kind.
[[noreturn]] void throw_read_error(const std::string& path, int reason);

}  // namespace trireme
