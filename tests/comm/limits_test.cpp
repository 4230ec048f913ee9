// Files that comm creates: the effect of a file size limit, and who may open them.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "comm/processes.h"
#include "comm/rendezvous/meeting.h"
#include "comm/rendezvous_helpers.h"
#include "temporary_folder.h"
#include "trireme/comm.h"

namespace trireme::comm {
namespace {

using test::Process;

constexpr rlim_t kMiB = rlim_t{1} << 20;

void limit_file_size(rlim_t most) {
  signal(SIGXFSZ, SIG_DFL);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = most;
  setrlimit(RLIMIT_FSIZE, &limit);
}

World world_of_one(TransportKind transport) {
  const Address store = listen_on().address;
  return trireme::join(
      {.rank = 0, .size = 1, .store = to_text(store), .secret = Secret::random().hex()},
      {.transport = transport});
}

/// " and SIGXFSZ is blocked", or pending, if a call left it so.
std::string signal_state() {
  sigset_t blocked;
  sigset_t pending;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  sigpending(&pending);
  return std::string(sigismember(&blocked, SIGXFSZ) == 1 ? " and SIGXFSZ is blocked" : "") +
         (sigismember(&pending, SIGXFSZ) == 1 ? " and SIGXFSZ is pending" : "");
}

TEST(FileSizeLimit, FailsJoinOverSharedMemory) {
  for (const TransportKind transport : {TransportKind::SharedMemory, TransportKind::Automatic}) {
    Process rank([&]() -> std::string {
      limit_file_size(8 * kMiB);
      try {
        (void)world_of_one(transport);
      } catch (const Error& error) {
        return error.what() + signal_state();
      }
      return "no error";
    });
    EXPECT_EQ(rank.result(),
              "cannot create shared memory of 16 MiB: File too large: files are limited to 8 MiB; "
              "raise the limit (ulimit -f unlimited)");
  }
}

/// A failed allocation does not change the memory.
TEST(FileSizeLimit, FailsAllocationAndWorldContinues) {
  Process rank([]() -> std::string {
    limit_file_size(48 * kMiB);
    World world = world_of_one(TransportKind::SharedMemory);
    std::string text = "no error";
    try {
      (void)world.allocate<char>(64 * kMiB);
    } catch (const Error& error) {
      text = error.what() + signal_state();
    }
    auto small = world.allocate<char>(20 * kMiB);
    std::ranges::fill(small.span(), 'x');
    return text;
  });
  const std::string text = rank.result();
  EXPECT_TRUE(text.starts_with("cannot create shared memory of ")) << text;
  EXPECT_TRUE(text.ends_with("files are limited to 48 MiB; raise the limit (ulimit -f unlimited)"))
      << text;
}

TEST(FileSizeLimit, FailsWriteOfMeetingFile) {
  Process rank([]() -> std::string {
    const TemporaryFolder folder;
    limit_file_size(0);
    std::string text = "no error";
    try {
      const MeetingHost host({.directory = folder.path(), .job = "job"});
    } catch (const Error& error) {
      text = error.what() + signal_state();
    }
    return text;
  });
  const std::string text = rank.result();
  EXPECT_TRUE(text.starts_with("cannot write /")) << text;
  EXPECT_TRUE(text.ends_with("files are limited to 0 B; raise the limit (ulimit -f unlimited)"))
      << text;
}

TEST(SharedMemoryFile, IsPrivateToUser) {
  Process rank([]() -> std::string {
    const World world = world_of_one(TransportKind::SharedMemory);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const std::string target = std::filesystem::read_symlink(entry.path(), ignored);
      struct stat status {};
      if (target.starts_with("/memfd:trireme") && stat(entry.path().c_str(), &status) == 0) {
        return fmt::format("mode {:o}", status.st_mode & 07777);
      }
    }
    return "no memfd";
  });
  EXPECT_EQ(rank.result(), "mode 600");
}

}  // namespace
}  // namespace trireme::comm
