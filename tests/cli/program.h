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

/// The program under test: that of the build, or of TRIREME_TEST_PROGRAM.
[[nodiscard]] std::string program_path();

/// Runs `trireme ARGUMENTS` through the shell (quote what needs it).
[[nodiscard]] Ran run_program(const std::string& arguments);

/// A temporary folder for this test process, removed when it exits.
[[nodiscard]] const std::string& scratch_folder();

[[nodiscard]] std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

/// Parses the options that an out-of-memory error lists as fitting; one string per line of the message.
[[nodiscard]] std::vector<std::string> fitting_options(const std::string& error);

}  // namespace trireme
