// A memory-mapped file. Any thread may read it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// The bytes of a regular file, read from disk on access. Replacing the file (rename) is fine. If it is truncated
/// while mapped, accessing bytes past its end kills the process (SIGBUS); copy() reports it instead.
class MappedFile {
 public:
  /// Throws Error(Input) or Error(System) as read_file() does.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Page-aligned. Valid as long as this object.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data_), size_};
  }
  /// Copies `from`, a part of bytes(), to `to`, which is as large. Throws Error(Input) if the file has been truncated,
  /// Error(System) if it cannot be read.
  void copy(std::span<const std::byte> from, std::byte* to) const;

 private:
  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
