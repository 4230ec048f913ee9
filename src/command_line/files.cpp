#include "command_line/files.h"

#include <fmt/format.h>

namespace trireme::cli {

void write_and_report(const std::string& path, std::string_view content) {
  write_file(path, content);
  fmt::print(stderr, "trireme: wrote {}\n", path);
}

}  // namespace trireme::cli
