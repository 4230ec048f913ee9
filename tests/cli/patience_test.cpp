#include "command_line/patience.h"

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme::cli {
namespace {

/// Waits without a system call that a signal would end.
void compute_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(Patience, ReportsOnlyLongComputations) {
  testing::internal::CaptureStderr();
  {
    const Patience patience({.seconds = 1});
    compute_for(std::chrono::milliseconds(1300));
  }
  compute_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "trireme: still computing\n");
}

TEST(Patience, GivesReasonImmediately) {
  testing::internal::CaptureStderr();
  const Patience patience({.reason = "100000 ranks"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "trireme: 100000 ranks: this may take minutes; Ctrl-C stops it\n");
}

/// A rank shows progress from its first step on, and the process that waits for it is then silent.
TEST(Patience, IsSilentOnceForkedProcessShowsProgress) {
  SharedNumber shows_progress;
  testing::internal::CaptureStderr();
  const Patience patience({.seconds = 1, .until = &shows_progress});
  const pid_t child = fork();
  if (child == 0) {
    shows_progress.set(1);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  compute_for(std::chrono::milliseconds(1300));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace trireme::cli
