// The files of a run: who owns its folder, its metrics, when it saves, whether checkpoints fit on the disk, what its
// data is.
#include <array>
#include <csignal>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/data/tokens.h"
#include "train/run/data_identity.h"
#include "train/run/disk_space.h"
#include "train/run/metrics_file.h"
#include "train/run/run_lock.h"
#include "train/run/save_timer.h"
#include "trireme/train_data.h"
#include "trireme/train_settings.h"

namespace trireme::train {
namespace {

TEST(SaveInterval, AcceptsStepsTimeOrBoth) {
  EXPECT_EQ(parse_save_interval("200").steps, 200);
  EXPECT_EQ(parse_save_interval("200").time.count, 0);
  EXPECT_EQ(parse_save_interval("10min").steps, 0);
  EXPECT_EQ(parse_save_interval("10min").time.count, 600);
  EXPECT_EQ(parse_save_interval("1h, 50").steps, 50);
  EXPECT_EQ(parse_save_interval("1h, 50").time.count, 3600);
  EXPECT_EQ(parse_save_interval("0").steps, 0);
  EXPECT_EQ(parse_save_interval("0").time.count, 0);
  EXPECT_EQ(parse_save_interval(TrainSettings{}.save_every).time.count, 900);
}

TEST(SaveInterval, RejectsInvalidIntervals) {
  for (const char* text : {"", "often", "-1", "0s", "5,6", "1s,2s", "5,0", "0,5", "5,", "1,2s,3"}) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::Usage, "invalid interval", [&] { (void)parse_save_interval(text); });
  }
}

TEST(SaveTimer, IsDueByStepsAndByTime) {
  SaveTimer by_steps({.steps = 5, .time = {}}, -1);
  EXPECT_FALSE(by_steps.is_due(0));
  EXPECT_FALSE(by_steps.is_due(4));
  EXPECT_TRUE(by_steps.is_due(5));
  by_steps.saved(5);
  EXPECT_FALSE(by_steps.is_due(5));
  EXPECT_TRUE(by_steps.is_due(10));
  SaveTimer by_time({.steps = 0, .time = {1e-9}}, 3);
  while (!by_time.time_is_up()) {
  }
  EXPECT_FALSE(by_time.is_due(3)) << "there is nothing new to save";
  EXPECT_TRUE(by_time.is_due(4));
  EXPECT_FALSE(SaveTimer({.steps = 0, .time = {1e6}}, -1).is_due(4));
}

std::string line(int step) {
  return fmt::format(R"({{"step":{},"loss":1.5}})", step);
}

TEST(MetricsFile, HasEachStepOnceAfterCrash) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int step = 1; step <= 5; ++step) {
      file.add(line(step));
      EXPECT_TRUE(content_of(path).ends_with(line(step) + "\n")) << "readers see every step";
    }
  }
  const std::string first_three = line(1) + "\n" + line(2) + "\n" + line(3) + "\n";
  std::ofstream(path, std::ios::app) << R"({"step":6,"lo)";
  { MetricsFile file(path, 9); }
  EXPECT_EQ(content_of(path), first_three + line(4) + "\n" + line(5) + "\n");
  { MetricsFile file(path, 3); }
  EXPECT_EQ(content_of(path), first_three);
  std::ofstream(path, std::ios::app) << line(4);  // complete, but for its line break
  { MetricsFile file(path, 4); }
  EXPECT_EQ(content_of(path), first_three);
  {
    MetricsFile file(path, 3);
    file.add(line(4));
  }
  EXPECT_EQ(content_of(path), first_three + line(4) + "\n");
  { MetricsFile file(path, 0); }
  EXPECT_EQ(content_of(path), "");
}

/// A limit on the size of files has the effect of a full disk.
TEST(MetricsFile, ReportsWriteFailure) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsFile file(path, 0);
  file.add(line(1));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limited = before;
  limited.rlim_cur = line(1).size() + 5;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  expect_error(ErrorKind::System, "metrics.jsonl': File too large", [&] { file.add(line(2)); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(content_of(path), line(1) + "\n") << "no part of the line is left";
}

/// A process that owns the folder until it is killed.
pid_t start_owner(const std::string& folder) {
  std::array<int, 2> ready{};
  EXPECT_EQ(pipe(ready.data()), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const RunLock lock(folder);
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return owner;
}

TEST(RunLock, NamesOwnerAndSurvivesItsDeath) {
  const TemporaryFolder folder;
  const pid_t owner = start_owner(folder.path());
  expect_error(ErrorKind::Usage, fmt::format("is in use by process {} on ", owner),
               [&] { const RunLock lock(folder.path()); });
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  { const RunLock lock(folder.path()); }
  const RunLock again(folder.path());
  EXPECT_NE(content_of(folder / "lock").find(fmt::format("process {} on ", getpid())),
            std::string::npos);
}

TEST(DiskSpace, MustHoldCheckpoint) {
  DiskNeed need{.folder = "run", .checkpoint = {1000}, .saved = 0, .keep = 3};
  expect_error(ErrorKind::System, "no room for a checkpoint: one has 1000 B, and the disk of 'run'",
               [&] { (void)check_disk_space(need, {999}); });
  EXPECT_NE(check_disk_space(need, {3999}).find("--keep 3 needs room for 4 more"),
            std::string::npos);
  EXPECT_EQ(check_disk_space(need, {4000}), "");
  need.saved = 3;
  EXPECT_EQ(check_disk_space(need, {1000}), "");
  EXPECT_GT(free_disk_space("/").count, 0);
}

std::string identity_of(const std::string& path) {
  TrainSettings settings;
  settings.data = {path};
  settings.length = 4;
  return data_identity(open_train_data(settings, ModelConfig{}), settings);
}

TEST(DataIdentity, DependsOnlyOnContents) {
  const TemporaryFolder folder;
  const std::string text = "many rowers pull as one; each of them keeps the time of the others";
  const std::string identity = identity_of(folder.file("a", text));
  EXPECT_EQ(identity, identity_of(folder.file("b", text)));
  std::string other = text;
  other[7] = 'x';
  EXPECT_NE(identity, identity_of(folder.file("c", other)));
  other = text;
  other[text.size() - 6] = 'x';  // in the validation part
  EXPECT_NE(identity, identity_of(folder.file("d", other)));
  EXPECT_NE(identity, identity_of(folder.file("e", text + text)));
}

TEST(DataIdentity, IsComparedWithRun) {
  const TemporaryFolder folder;
  TrainSettings settings;
  settings.data = {"book.txt"};
  require_same_data(folder.path(), "anything",
                    settings);  // a run from before there were identities
  write_data_identity(folder.path(), "5 examples");
  require_same_data(folder.path(), "5 examples", settings);
  expect_error(ErrorKind::Input, "the contents of 'book.txt' are not what",
               [&] { require_same_data(folder.path(), "6 examples", settings); });
}

/// Copying from a file that has been truncated is an error, not the end of the process.
TEST(TokenFile, ReportsTruncation) {
  const TemporaryFolder folder;
  const std::string path = folder.file("text", std::string(100'000, 'a'));
  const Tokens tokens = open_bytes(path);
  std::vector<std::int32_t> out(10);
  tokens.copy(99'000, out);
  EXPECT_EQ(out[3], 'a');
  ASSERT_EQ(truncate(path.c_str(), 1000), 0);
  tokens.copy(990, out);
  expect_error(ErrorKind::Input,
               "text' was truncated while in use: it had 100000 bytes and has 1000 now",
               [&] { tokens.copy(995, out); });
  expect_error(ErrorKind::Input, "was truncated", [&] { tokens.copy(99'000, out); });
}

}  // namespace
}  // namespace trireme::train
