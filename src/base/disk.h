// Changes files and folders such that a crash at any moment leaves either the old or the new state. Every change goes
// through a Disk, so that a test can stop before each of them.
//
// A Disk may be used from several threads if its hook may; an OutputFile or AtomicFile belongs to one.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

/// The calls that change a file system. Each throws Error(System) naming the path and the reason.
class Disk {
 public:
  /// Called before every change with the operation ("write", "rename", …) and its target.
  using Hook = std::function<void(std::string_view change, const std::string& path)>;

  Disk() = default;
  explicit Disk(Hook before_change) : before_change_(std::move(before_change)) {}

  void announce(std::string_view change, const std::string& path) const;

  /// The parent must exist; the folder itself may.
  void make_folder(const std::string& path) const;
  /// Replaces `to` if it is a file or an empty folder. Atomic.
  void rename(const std::string& from, const std::string& to) const;
  /// Removes a file, a link (not its target) or a folder with its contents, one by one. Does nothing if there is none.
  void remove(const std::string& path) const;
  /// Returns once the names in the folder are durable.
  void sync_folder(const std::string& path) const;

 private:
  Hook before_change_;
};

/// A file being written from scratch. Not durable until finish().
class OutputFile {
 public:
  /// Truncates an existing file; does not follow a link. `disk` must outlive this object. Errors call it `name`, if
  /// given, by which the user knows it.
  OutputFile(std::string path, const Disk& disk, std::string name = "");
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Returns once the content is durable; then closes. Once only.
  void finish();

 private:
  std::string path_;
  std::string name_;
  const Disk& disk_;
  int fd_ = -1;
};

/// Replaces one file by a new one, or not at all: written under a temporary name in the same folder, synced, renamed,
/// the folder synced. If not committed, removes the temporary file and keeps the old one.
class AtomicFile {
 public:
  /// `disk` must outlive this object. If `path` is a link, the link is replaced.
  AtomicFile(std::string path, const Disk& disk);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void write(std::string_view text) { file_.write(text); }
  /// After this the new file is in place and durable. Once only.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  const Disk& disk_;
  OutputFile file_;
  bool renamed_ = false;
};

/// The same in one call.
void replace_file(const std::string& path, std::string_view content, const Disk& disk = Disk());

/// The folder that contains a path: "a" for "a/b", "." for "b".
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace trireme
