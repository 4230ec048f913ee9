// If the process is killed or the disk fails at any point during a save, the previous checkpoint survives. A hook is
// called before every change to the disk; the tests stop at each one.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temporary_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoints.h"

namespace trireme::train {
namespace {

/// Calls `stop` before change number `k`.
Disk stopping_at(int k, const std::function<void()>& stop) {
  return Disk([k, stop, calls = 0](std::string_view, const std::string&) mutable {
    if (calls++ == k) {
      stop();
    }
  });
}

/// Saves in a child process, which kills itself before change number k. Returns whether the save completed.
bool save_and_die(const std::string& folder, std::int64_t step, int keep, int k) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      save_checkpoint(folder, state_at(step),
                      {.keep = keep, .disk = stopping_at(k, [] { (void)raise(SIGKILL); })});
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return WIFEXITED(status);
}

bool has_leftovers(const std::string& folder) {
  const Names names = names_in(folder);
  return std::ranges::any_of(names, [](const std::string& name) {
    return name.ends_with(".tmp") || name.ends_with(".old");
  });
}

/// Saves `before`, then kills the save of `step` at every point, each time in a new folder. Afterwards one of `allowed`
/// must be intact, and saving again must clean up.
void kill_everywhere(const std::vector<std::int64_t>& before, std::int64_t step, int keep,
                     const std::vector<std::int64_t>& allowed) {
  int k = 0;
  for (bool through = false; !through; ++k) {
    ASSERT_LT(k, 200);
    SCOPED_TRACE(k);
    const TemporaryFolder folder;
    for (const std::int64_t old : before) {
      save_checkpoint(folder.path(), state_at(old));
    }
    through = save_and_die(folder.path(), step, keep, k);
    const std::optional<LoadedCheckpoint> loaded = load_latest(folder.path());
    ASSERT_TRUE(loaded.has_value() || before.empty());
    if (loaded) {
      const std::int64_t found = loaded->checkpoint.info.step;
      EXPECT_NE(std::ranges::find(allowed, found), allowed.end()) << found;
      expect_whole(loaded->checkpoint, found);
      EXPECT_TRUE(!through || (found == step && loaded->warning.empty()));
    }
    save_checkpoint(folder.path(), state_at(step + 1), {.keep = keep});
    EXPECT_FALSE(has_leftovers(folder.path()));
    expect_whole(load_latest(folder.path()).value().checkpoint, step + 1);
  }
  EXPECT_GT(k, 15);
}

TEST(CheckpointCrash, LosesNothingWhenKilledAtAnyMoment) {
  kill_everywhere({1, 2}, 3, 2, {2, 3});
}

TEST(CheckpointCrash, LosesNothingWhenOnlyOneIsKept) {
  kill_everywhere({1}, 2, 1, {1, 2});
}

TEST(CheckpointCrash, LosesNothingWhenSameStepIsSavedAgain) {
  kill_everywhere({1}, 1, 1, {1});
}

TEST(CheckpointCrash, LeavesNothingMisleadingWhenFirstSaveIsKilled) {
  kill_everywhere({}, 1, 1, {1});
}

TEST(CheckpointCrash, LosesNothingWhenKilledRepeatedlyInOneFolder) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), state_at(1));
  int k = 0;
  while (!save_and_die(folder.path(), 2, 1, k)) {
    SCOPED_TRACE(k);
    ASSERT_LT(++k, 200);
    const Checkpoint loaded = load_latest(folder.path()).value().checkpoint;
    expect_whole(loaded, loaded.info.step);
  }
  EXPECT_EQ(names_in(folder.path()), (Names{"latest", "step-000002"}));
}

TEST(CheckpointCrash, LosesNothingWhenDiskFailsAtAnyMoment) {
  int k = 0;
  for (bool through = false; !through; ++k) {
    ASSERT_LT(k, 200);
    SCOPED_TRACE(k);
    const TemporaryFolder folder;
    save_checkpoint(folder.path(), state_at(1));
    bool renamed = false;
    Disk failing([&, calls = 0](std::string_view change, const std::string&) mutable {
      if (calls++ == k) {
        throw std::runtime_error("no space left");
      }
      renamed = renamed || change == "rename";
    });
    try {
      save_checkpoint(folder.path(), state_at(2), {.keep = 1, .disk = failing});
      through = true;
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no space left");
    }
    const Checkpoint loaded = load_latest(folder.path()).value().checkpoint;
    expect_whole(loaded, loaded.info.step);
    if (!renamed) {
      EXPECT_EQ(names_in(folder.path()), (Names{"latest", "step-000001"}));
    }
  }
}

// A power failure can undo anything not synced. Thus every file is synced before its folder, that before the rename,
// the rename before `latest`, and that before anything is removed.
TEST(CheckpointCrash, SyncsInCorrectOrder) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), state_at(1));
  Names changes;
  const Disk watching([&](std::string_view change, const std::string& path) {
    const std::string name = std::filesystem::relative(path, folder.path()).string();
    std::string line =
        std::string(change) + " " + (name.starts_with("latest.") ? "latest.tmp" : name);
    if (changes.empty() || changes.back() != line) {
      changes.push_back(std::move(line));
    }
  });
  save_checkpoint(folder.path(), state_at(2), {.keep = 1, .disk = watching});
  std::sort(changes.end() - 4, changes.end() - 1);  // the files of a folder come in any order
  EXPECT_EQ(changes, (Names{"make folder step-000002.tmp",
                            "create step-000002.tmp/model.safetensors",
                            "write step-000002.tmp/model.safetensors",
                            "sync step-000002.tmp/model.safetensors",
                            "create step-000002.tmp/optimizer.safetensors",
                            "write step-000002.tmp/optimizer.safetensors",
                            "sync step-000002.tmp/optimizer.safetensors",
                            "create step-000002.tmp/manifest.json",
                            "write step-000002.tmp/manifest.json",
                            "sync step-000002.tmp/manifest.json",
                            "sync folder step-000002.tmp",
                            "rename step-000002.tmp",
                            "sync folder .",
                            "create latest.tmp",
                            "write latest.tmp",
                            "sync latest.tmp",
                            "rename latest.tmp",
                            "sync folder .",
                            "rename step-000001",
                            "remove step-000001.tmp/manifest.json",
                            "remove step-000001.tmp/model.safetensors",
                            "remove step-000001.tmp/optimizer.safetensors",
                            "remove step-000001.tmp"}));
}

}  // namespace
}  // namespace trireme::train
