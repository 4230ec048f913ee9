#include "command_line/interrupt.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme::cli {
namespace {

constexpr StopReply kContinues{.text = "stopping later"};

/// What becomes of a process that gets SIGTERM; 0 if it continues with the flag set.
int exit_code_after_signal(bool has_begun) {
  SharedNumber flag;
  SharedNumber begun;
  const StopReply reply{
      .text = "stopping now", .at_once = true, .until = &begun, .next = &kContinues};
  const pid_t child = fork();
  if (child == 0) {
    const InterruptGuard guard(flag, reply);
    if (has_begun) {
      begun.set(1);
    }
    (void)std::raise(SIGTERM);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(flag.get(), SIGTERM);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(InterruptGuard, EndsAProgramThatHasNothingToSave) {
  EXPECT_EQ(exit_code_after_signal(false), exit_code_of(SIGTERM));
}

TEST(InterruptGuard, LetsAProgramContinueThatHasSomethingToSave) {
  EXPECT_EQ(exit_code_after_signal(true), 0);
}

}  // namespace
}  // namespace trireme::cli
