// Runs the real program, as a user would.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct Ran {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Runs `trireme ARGUMENTS` through the shell (quote what needs it).
[[nodiscard]] Ran run_program(const std::string& arguments);

/// A folder of its own for this test process, removed at its end.
[[nodiscard]] const std::string& scratch_folder();

[[nodiscard]] std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

/// Of an error about memory: the options that it says fit, those of a line together.
[[nodiscard]] std::vector<std::string> said_to_fit(const std::string& error);

}  // namespace trireme
