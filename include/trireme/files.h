// Reading and writing whole files. Callable from any thread.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Throws Error(Input) if it is missing or unreadable, Error(System) if reading fails, naming the file and the reason.
[[nodiscard]] std::string read_file(const std::string& path);

/// Writes under a temporary name next to `path`, then renames: the file is either complete or
/// unchanged. Throws Error(System) naming the file and the reason.
void write_file(const std::string& path, std::string_view content);

}  // namespace trireme
