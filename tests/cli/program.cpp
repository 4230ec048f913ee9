#include "cli/program.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sys/wait.h>

#include "temporary_folder.h"

namespace trireme {
std::string program_path() {
  const char* other = std::getenv("TRIREME_TEST_PROGRAM");  // NOLINT(concurrency-mt-unsafe)
  return other != nullptr ? other : TRIREME_PROGRAM;
}

const std::string& scratch_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

std::string read_text(const std::string& path) {
  return content_of(path);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Ran run_program(const std::string& arguments) {
  const std::string out = scratch_folder() + "/out";
  const std::string err = scratch_folder() + "/err";
  // The redirections come first, so that the arguments may redirect again.
  const std::string command = "cd '" + scratch_folder() + "' && </dev/null >'" + out + "' 2>'" +
                              err + "' '" + program_path() + "' " + arguments;
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out), read_text(err)};
}

std::vector<std::string> fitting_options(const std::string& error) {
  std::vector<std::string> options;
  std::istringstream lines(error);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  --")) {
      options.push_back(line.substr(2, line.find("  ", 2) - 2));
    }
  }
  return options;
}

}  // namespace trireme
