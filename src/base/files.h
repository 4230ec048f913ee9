// Reading and writing whole files. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Throws Error(System) that names the file and the reason.
[[nodiscard]] std::string read_file(const std::string& path);

/// Writes under a temporary name beside `path`, then renames: the file is there whole or as it was
/// before. Throws Error(System) that names the file and the reason.
void write_file(const std::string& path, std::string_view content);

}  // namespace trireme
