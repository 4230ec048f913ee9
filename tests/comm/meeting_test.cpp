#include "comm/rendezvous/meeting.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous_helpers.h"
#include "temporary_folder.h"

namespace trireme::comm {
namespace {

namespace fs = std::filesystem;

/// A fresh directory for each test.
class MeetingFile : public testing::Test {
 protected:
  [[nodiscard]] MeetingPlace place(const std::string& job = "job") const {
    return {.directory = directory_.string(), .job = job};
  }
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(place().path()) << text;
    ::chmod(place().path().c_str(), mode);
  }

  LeakCheck leaks_;
  TemporaryFolder folder_;
  const fs::path directory_ = folder_.path();
};

TEST_F(MeetingFile, IsPrivateToUserAndRemovedWithHost) {
  {
    const MeetingHost host(place());
    struct stat status {};
    ASSERT_EQ(::stat(place().path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600U);
    EXPECT_EQ(status.st_uid, ::geteuid());
    EXPECT_EQ(host.meeting().store.host, "127.0.0.1");
    EXPECT_EQ(entries(directory_.c_str()), 1);  // and no temporary file
  }
  EXPECT_EQ(entries(directory_.c_str()), 0);
}

TEST_F(MeetingFile, EscapesUserAndJobInFileName) {
  const std::string uid = std::to_string(::geteuid());
  EXPECT_EQ(place("4711.0").path(), directory_.string() + "/trireme-" + uid + "-4711.0.meet");
  EXPECT_EQ(place("../x y").path(), directory_.string() + "/trireme-" + uid + "-..%2fx%20y.meet");
  EXPECT_NE(place(std::string(300, 'a')).path(), place(std::string(301, 'a')).path());
  EXPECT_LT(place(std::string(300, 'a')).path().size(), directory_.string().size() + 120);
}

/// Runs the body in a child process; it returns whether everything succeeded.
pid_t in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(good ? 0 : 1);
  }
  return child;
}

bool ended_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(MeetingFile, ConnectsFourProcesses) {
  constexpr int kRanks = 4;
  const auto rank = [&](int self) {
    return in_child([&, self] {
      std::unique_ptr<MeetingHost> host;
      if (self == 0) {  // the last to join
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        host = std::make_unique<MeetingHost>(place());
      }
      const Meeting meeting = await_meeting(place(), soon());
      TcpStore store({.server = meeting.store, .secret = meeting.secret}, soon());
      store.set("rank" + std::to_string(self), std::to_string(::getpid()));
      for (int other = 0; other < kRanks; ++other) {
        if (store.get("rank" + std::to_string(other), soon()).empty()) {
          return false;
        }
      }
      if (store.add("left", 1) == kRanks) {
        store.set("all left", "");
      }
      if (self == 0) {
        (void)store.get("all left", soon());
      }
      return true;
    });
  };
  std::vector<pid_t> children;
  for (int self = kRanks; self-- > 0;) {
    children.push_back(rank(self));
  }
  for (const pid_t child : children) {
    EXPECT_TRUE(ended_well(child));
  }
  EXPECT_EQ(entries(directory_.c_str()), 0);
}

TEST_F(MeetingFile, ReplacesFileOfDeadJob) {
  const pid_t child = in_child([&] {
    new MeetingHost(place());  // dies without its destructor
    ::kill(::getpid(), SIGKILL);
    return false;
  });
  EXPECT_FALSE(ended_well(child));
  EXPECT_TRUE(fs::exists(place().path()));
  expect_error(ErrorKind::System, {place().path(), "left over from a dead job", "job id 'job'"},
               [&] { (void)await_meeting(place(), deadline_in({0.03})); });
  const MeetingHost host(place());
  EXPECT_EQ(await_meeting(place(), soon()).store, host.meeting().store);
  EXPECT_EQ(await_meeting(place(), soon()).secret.hex(), host.meeting().secret.hex());
}

TEST_F(MeetingFile, KeepsFileOfLiveJob) {
  const MeetingHost host(place());
  expect_error(ErrorKind::Usage, {place().path(), "job 'job' that is running"},
               [&] { const MeetingHost second(place()); });
  const MeetingHost other(place("other"));
  EXPECT_EQ(await_meeting(place(), soon()).store, host.meeting().store);
}

TEST_F(MeetingFile, KeepsFileOfOtherHost) {
  {
    const MeetingHost host(place());
    fs::remove(place().path());
    write("somebody else's");
  }
  EXPECT_TRUE(fs::exists(place().path()));
}

TEST_F(MeetingFile, WaitEndsAtDeadline) {
  const Clock::time_point begin = Clock::now();
  expect_error(ErrorKind::System, {place().path(), "it is not there", "is rank 0 running"},
               [&] { (void)await_meeting(place(), deadline_in({0.05})); });
  EXPECT_LT(since(begin).count, 1.0);
}

TEST_F(MeetingFile, RejectsReadableFilesAndLinks) {
  write("text", 0644);
  expect_error(ErrorKind::System, {place().path(), "mode 644", "not 600"},
               [&] { (void)await_meeting(place(), soon()); });
  expect_error(ErrorKind::System, {"mode 644"}, [&] { const MeetingHost host(place()); });
  fs::remove(place().path());
  fs::create_symlink("/etc/passwd", place().path());
  expect_error(ErrorKind::System, {place().path(), "it is a link"},
               [&] { (void)await_meeting(place(), soon()); });
  expect_error(ErrorKind::System, {"it is a link"}, [&] { const MeetingHost host(place()); });
  fs::remove(place().path());
  ASSERT_EQ(::mkfifo(place().path().c_str(), 0600), 0);
  expect_error(ErrorKind::System, {"remove it"}, [&] { (void)await_meeting(place(), soon()); });
}

TEST_F(MeetingFile, RequiresDirectoryOthersCannotChange) {
  fs::permissions(directory_, fs::perms::all);
  expect_error(ErrorKind::System, {directory_.string(), "mode 777", "lets others change"},
               [&] { const MeetingHost host(place()); });
  fs::permissions(directory_, fs::perms::all | fs::perms::sticky_bit);  // as /tmp is
  const MeetingHost host(place());
  expect_error(ErrorKind::System, {"/nowhere/at/all", "No such file"},
               [] { const MeetingHost nowhere({.directory = "/nowhere/at/all", .job = "job"}); });
}

// The folder that contains the meeting files.

class MeetingFolder : public MeetingFile {
 public:
  MeetingFolder() { fs::permissions(directory_, fs::perms::all | fs::perms::sticky_bit); }

 protected:
  /// Like /tmp, without a runtime directory.
  [[nodiscard]] MeetingFolderOptions shared() const {
    return {.runtime = "", .shared = directory_.string()};
  }
  [[nodiscard]] std::string first() const {
    return directory_.string() + "/trireme-" + std::to_string(::geteuid());
  }
  /// A meeting works, whatever the folder.
  void expect_meeting() const {
    const std::string folder = make_meeting_folder(shared());
    struct stat status {};
    ASSERT_EQ(::lstat(folder.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
    EXPECT_EQ(status.st_uid, ::geteuid());
    const MeetingHost host({.directory = folder, .job = "job"});
    const MeetingSearch search{.folders = shared(), .job = "job"};
    EXPECT_EQ(await_meeting(search, soon()).store, host.meeting().store);
  }
};

TEST_F(MeetingFolder, IsPrivateToUser) {
  expect_meeting();
  EXPECT_EQ(make_meeting_folder(shared()), first());
  EXPECT_EQ(entries(directory_.c_str()), 1);
}

TEST_F(MeetingFolder, IsRuntimeDirectoryWhenTrusted) {
  const std::string runtime = directory_.string() + "/runtime";
  const MeetingFolderOptions options{.runtime = runtime, .shared = directory_.string()};
  EXPECT_EQ(first_meeting_folder(options), first());  // it is not there
  fs::create_directory(runtime);
  fs::permissions(runtime, fs::perms::owner_all | fs::perms::others_exec);
  EXPECT_EQ(first_meeting_folder(options), first());
  fs::permissions(runtime, fs::perms::owner_all);
  EXPECT_EQ(make_meeting_folder(options), runtime + "/trireme");
  EXPECT_EQ(find_meeting_folders(options), std::vector{runtime + "/trireme"});
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(runtime.c_str(), 12345, 12345), 0);
    EXPECT_EQ(first_meeting_folder(options), first());
  }
}

TEST_F(MeetingFolder, FallsBackIfAnotherUserCreatedIt) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root to make another user's folder";
  }
  fs::create_directory(first());
  ASSERT_EQ(::chown(first().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(find_meeting_folders(shared()).empty());
  expect_meeting();
  expect_meeting();  // in the same one as before
  EXPECT_EQ(entries(directory_.c_str()), 2);
  EXPECT_EQ(entries(first().c_str()), 0);
}

TEST_F(MeetingFolder, RejectsLinksFilesAndOpenPermissions) {
  fs::create_directory(directory_ / "elsewhere");
  fs::permissions(directory_ / "elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(directory_ / "elsewhere", first());
  expect_meeting();
  EXPECT_EQ(entries((directory_ / "elsewhere").c_str()), 0);
  fs::remove(first());
  fs::create_directory(first());
  fs::permissions(first(), fs::perms::all);
  expect_meeting();
  EXPECT_EQ(entries(first().c_str()), 0);
  fs::remove(first());
  std::ofstream(first()) << "";
  expect_meeting();
}

TEST_F(MeetingFolder, NamesOwnerOfConflictingPath) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root to become another user";
  }
  fs::permissions(directory_, static_cast<fs::perms>(0755));
  fs::create_directory(directory_ / "trireme-12345");
  const pid_t child = in_child([&] {
    if (::setresuid(12345, 12345, 12345) != 0) {
      return false;
    }
    expect_error(ErrorKind::System,
                 {directory_.string() + "/trireme-12345: it belongs to user 0, not to user 12345",
                  "remove it, set XDG_RUNTIME_DIR"},
                 [&] { (void)make_meeting_folder(shared()); });
    return !testing::Test::HasFailure();
  });
  EXPECT_TRUE(ended_well(child));
}

/// Two processes claim the same place at the same moment: one gets it.
TEST_F(MeetingFile, ConcurrentCreationHasOneOwner) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> hosts = 0;
    std::atomic<int> taken = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        try {
          const MeetingHost host(place());
          ++hosts;
          while (hosts + taken < 4) {
            std::this_thread::yield();
          }
        } catch (const MeetingTaken&) {
          ++taken;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(hosts, 1);
    EXPECT_EQ(taken, 3);
  }
}

}  // namespace
}  // namespace trireme::comm
