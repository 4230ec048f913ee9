// The errors of files and folders that cannot be read or written.
#pragma once

#include <string>
#include <string_view>

#include "trireme/error.h"

namespace trireme {

/// "cannot write 'PATH': REASON" for the action "write" and an errno value.
[[nodiscard]] std::string path_error_text(std::string_view action, const std::string& path,
                                          int reason);

/// For an errno value: Input if the path is wrong or not accessible, System if the machine is at fault.
[[nodiscard]] ErrorKind kind_of_path_error(int reason);

/// Throws "cannot read 'PATH': REASON" of that kind.
[[noreturn]] void throw_read_error(const std::string& path, int reason);
/// Throws "cannot write 'PATH': REASON", always System.
[[noreturn]] void throw_write_error(const std::string& path, int reason);

}  // namespace trireme
