// launch() detects and reports a failed job however the program handles SIGCHLD.
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/run_ranks.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

/// Changes the disposition of SIGCHLD during its lifetime.
class ChildSignal {
 public:
  explicit ChildSignal(void (*handler)(int), int flags = 0) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGCHLD, &action, &before_);
  }
  ~ChildSignal() { sigaction(SIGCHLD, &before_, nullptr); }
  ChildSignal(const ChildSignal&) = delete;
  ChildSignal& operator=(const ChildSignal&) = delete;

 private:
  struct sigaction before_ {};
};

/// Like programs that avoid zombies.
void reap_all(int /*signal*/) {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

/// What launch() returns and writes for two ranks of which rank 1 ends this way.
struct Launched {
  int code = -1;
  std::string text;
};

Launched launch_two(const std::function<void()>& end_of_rank_one,
                    TransportKind transport = TransportKind::SharedMemory) {
  Launched launched;
  testing::internal::CaptureStderr();
  launched.code = launch(2,
                         [&](World& world) {
                           world.all().barrier();
                           if (world.rank() == 1) {
                             end_of_rank_one();
                           }
                         },
                         {.transport = transport});
  launched.text = testing::internal::GetCapturedStderr();
  return launched;
}

void expect_right_result() {
  EXPECT_EQ(launch_two([] {}).code, 0);
  EXPECT_EQ(launch_two([] { throw std::runtime_error("on purpose"); }).code, 1);
  EXPECT_EQ(launch_two([] { std::_Exit(3); }).code, 1);
  const Launched killed = launch_two([] { raise(SIGKILL); });
  EXPECT_EQ(killed.code, 1);
  EXPECT_NE(killed.text.find("rank 1 "), std::string::npos) << killed.text;
}

TEST(Launch, WorksWhenSigchldIsIgnored) {
  const ChildSignal ignored(SIG_IGN);
  expect_right_result();
}

TEST(Launch, WorksWhenChildrenLeaveNoZombies) {
  const ChildSignal no_zombies(SIG_DFL, SA_NOCLDWAIT);
  expect_right_result();
}

TEST(Launch, WorksWhenHandlerReapsAllChildren) {
  const ChildSignal reaper(reap_all, SA_RESTART);
  expect_right_result();
}

TEST(Launch, NamesSignalThatKilledRank) {
  for (const TransportKind transport : test::transports()) {
    if (transport == TransportKind::InProcess) {
      continue;
    }
    const Launched launched = launch_two(
        [] {
          signal(SIGXFSZ, SIG_DFL);
          raise(SIGXFSZ);
        },
        transport);
    EXPECT_EQ(launched.code, 1);
    EXPECT_NE(launched.text.find("rank 1 was killed by SIGXFSZ (File size limit exceeded)\n"),
              std::string::npos)
        << launched.text;
  }
}

}  // namespace
}  // namespace trireme
