// Runs the program as a user does.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "ps/cluster.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {

/// What the program prints, errors too if it is to fail or `--json` is not asked for; it must exit with this code.
inline std::string run_program(const std::string& arguments, int exit_code = 0) {
  const bool is_json = arguments.find("--json") != std::string::npos;
  const std::string command =
      fmt::format("{}='{}' '{}' {} {}", kSecretVariable, kTestSecret, TRIREME_PROGRAM, arguments,
                  is_json ? "2>/dev/null" : "2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == exit_code) << command << "\n" << text;
  return text;
}

}  // namespace trireme::ps
