// Ranks started by launchers: the real ones if they are installed, and variables as torchrun sets them. Each rank is
// tests/comm/join_program.cpp.
#include <array>
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "comm/net/secret.h"
#include "comm/net/socket.h"

namespace trireme {
namespace {

struct Output {
  int code = -1;
  std::string text;  ///< of both streams
};

Output run_shell(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "re");
  Output output;
  if (pipe == nullptr) {
    return output;
  }
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

bool is_installed(const std::string& program) {
  return run_shell("command -v " + program).code == 0;
}

/// All three ranks ran once and got 1 + 2 + 3.
void expect_world_of_three(const Output& output) {
  EXPECT_EQ(output.code, 0) << output.text;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string line = fmt::format("rank {} of 3: 6 to 6, 1 hosts\n", rank);
    const std::size_t at = output.text.find(line);
    EXPECT_NE(at, std::string::npos) << line << output.text;
    EXPECT_TRUE(at == std::string::npos || output.text.find(line, at + 1) == std::string::npos)
        << output.text;
  }
}

/// The program's path, quoted for the shell.
const char* const kProgram = "'" TRIREME_JOIN_PROGRAM "'";

TEST(Launched, OpenMpiStartsWorld) {
  if (!is_installed("mpirun.openmpi")) {
    GTEST_SKIP() << "mpirun.openmpi is not installed";
  }
  expect_world_of_three(run_shell(fmt::format(
      "timeout 30 mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 {}", kProgram)));
}

TEST(Launched, MpichStartsWorld) {
  if (!is_installed("mpirun.mpich")) {
    GTEST_SKIP() << "mpirun.mpich is not installed";
  }
  expect_world_of_three(run_shell(fmt::format("timeout 30 mpirun.mpich -n 3 {}", kProgram)));
}

/// A port such that it and the next one are free, as torchrun would have found it.
int free_port() {
  for (;;) {
    const int port = comm::listen_on().address.port;
    try {
      (void)comm::listen_on({.port = static_cast<std::uint16_t>(port + 1)});
      return port;
    } catch (const std::exception&) {
      continue;
    }
  }
}

/// Three processes with these variables and RANK 0, 1, 2. The exit code is that of the last one that failed.
Output run_with_variables(const std::string& variables) {
  std::string command = "code=0; pids=";
  for (int rank = 0; rank < 3; ++rank) {
    command += fmt::format("; env -i RANK={} {} timeout 30 {} & pids=\"$pids $!\"", rank, variables,
                           kProgram);
  }
  return run_shell(command + "; for pid in $pids; do wait $pid || code=$?; done; (exit $code)");
}

TEST(Launched, TorchrunVariablesStartWorld) {
  expect_world_of_three(run_with_variables(fmt::format(
      "WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT={} TRIREME_SECRET={}",
      free_port(), comm::Secret::random().hex())));
}

TEST(Launched, TorchrunWithoutSecretSaysHowToSetOne) {
  const Output output = run_with_variables("WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500");
  EXPECT_EQ(output.code, 1);
  EXPECT_NE(output.text.find("TRIREME_SECRET"), std::string::npos) << output.text;
}

TEST(Launched, UnlaunchedProgramIsWorldOfOne) {
  EXPECT_EQ(run_shell(fmt::format("env -i {}", kProgram)).text, "rank 0 of 1: 1 to 1, 1 hosts\n");
}

}  // namespace
}  // namespace trireme
