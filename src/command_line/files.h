// Files that a command reads and writes for its user.
#pragma once

#include <string>
#include <string_view>

#include "trireme/files.h"
#include "trireme/message.h"

namespace trireme::cli {

/// Parses the text of the file that an option names; errors begin with the option, those in the text also with the file.
template <class Parse>
auto parsed_file(std::string_view option, const std::string& path, const Parse& parse) {
  return parsed(option, path,
                [&](const std::string& file) { return parsed(file, read_file(file), parse); });
}

/// A check of options that name a file to write: why that is impossible, known before a long computation whose result
/// would be lost; "" if it is possible.
[[nodiscard]] std::string writable_path(const std::string& path);

/// Writes the file (see trireme::write_file) and reports it on standard error.
void write_and_report(const std::string& path, std::string_view content);

}  // namespace trireme::cli
