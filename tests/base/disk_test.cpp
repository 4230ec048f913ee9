#include "base/disk.h"

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "base/path_error.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace trireme {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(ReplaceFile, WritesAndReplaces) {
  const TemporaryFolder folder;
  replace_file(folder / "a", "one");
  EXPECT_EQ(content_of(folder / "a"), "one");
  replace_file(folder / "a", "two");
  EXPECT_EQ(content_of(folder / "a"), "two");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(ReplaceFile, SyncsFileBeforeRenameAndFolderLast) {
  const TemporaryFolder folder;
  std::vector<std::string> changes;
  replace_file(folder / "a", "text", Disk([&](std::string_view change, const std::string&) {
                 changes.emplace_back(change);
               }));
  EXPECT_EQ(changes,
            (std::vector<std::string>{"create", "write", "sync", "rename", "sync folder"}));
}

TEST(ReplaceFile, KeepsOldFileOnFailure) {
  for (int stop = 0; stop < 4; ++stop) {
    const TemporaryFolder folder;
    replace_file(folder / "a", "old");
    int calls = 0;
    const Disk failing([&](std::string_view, const std::string&) {
      if (calls++ == stop) {
        throw std::runtime_error("stop");
      }
    });
    EXPECT_THROW(replace_file(folder / "a", "new", failing), std::runtime_error);
    EXPECT_EQ(content_of(folder / "a"), "old") << stop;
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"}) << stop;
  }
}

TEST(ReplaceFile, ErrorsNameTargetFile) {
  expect_error(ErrorKind::System, "cannot write '/nowhere/a': No such file",
               [] { replace_file("/nowhere/a", "x"); });
}

TEST(Disk, SplitsLongWrites) {
  const TemporaryFolder folder;
  int writes = 0;
  const Disk disk(
      [&](std::string_view change, const std::string&) { writes += change == "write"; });
  replace_file(folder / "a", std::string((2U << 20) + 1, 'x'), disk);
  EXPECT_EQ(writes, 3);
  EXPECT_EQ(std::filesystem::file_size(folder / "a"), (2U << 20) + 1);
}

TEST(Disk, RemovesFoldersRecursivelyWithoutFollowingLinks) {
  const TemporaryFolder folder;
  const Disk disk;
  disk.make_folder(folder / "kept");
  (void)folder.file("kept/file", "x");
  disk.make_folder(folder / "gone");
  disk.make_folder(folder / "gone/inner");
  (void)folder.file("gone/inner/file", "x");
  std::filesystem::create_directory_symlink(folder / "kept", folder / "gone/link");
  disk.remove(folder / "gone");
  disk.remove(folder / "gone");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"kept"});
  EXPECT_EQ(content_of(folder / "kept/file"), "x");
}

TEST(MappedFile, MapsEmptyAndNonEmptyFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(MappedFile(folder.file("a", "hello")).text(), "hello");
  EXPECT_TRUE(MappedFile(folder.file("b", "")).bytes().empty());
}

TEST(ReadError, BlamesPathOrMachine) {
  expect_error(ErrorKind::Input, "cannot read 'a': Permission denied",
               [] { throw_read_error("a", EACCES); });
  expect_error(ErrorKind::System, "cannot read 'a': Input/output error",
               [] { throw_read_error("a", EIO); });
}

TEST(MappedFile, ReportsWhyItCannotRead) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::Input, "none': No such file", [&] { MappedFile file(folder / "none"); });
  expect_error(ErrorKind::Input, "not a regular file", [&] { MappedFile file(folder.path()); });
}

}  // namespace
}  // namespace trireme
