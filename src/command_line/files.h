// Files that a command writes for its user.
#pragma once

#include <string>
#include <string_view>

#include "trireme/files.h"

namespace trireme::cli {

/// Writes the file (see trireme::write_file) and reports it on standard error.
void write_and_report(const std::string& path, std::string_view content);

}  // namespace trireme::cli
