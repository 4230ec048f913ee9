#include "command_line/terminal.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

namespace trireme::cli {

namespace {

/// Read once at the start of a command, before a second thread exists. "" if it is not set.
std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

/// The columns of the terminal that standard output is.
std::optional<int> terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::optional<int>(size.ws_col) : std::nullopt;
}

}  // namespace

Terminal standard_output() {
  Terminal terminal;
  if (isatty(STDOUT_FILENO) == 0) {
    return terminal;
  }
  terminal.color = variable("NO_COLOR").empty();
  terminal.width = terminal_columns().value_or(terminal.width);
  return terminal;
}

int help_width() {
  constexpr int kUsual = 80;
  const int given =
      std::atoi(variable("COLUMNS").c_str());  // NOLINT(cert-err34-c): 0 if it is not a number
  return given > 0 ? given : terminal_columns().value_or(kUsual);
}

}  // namespace trireme::cli
