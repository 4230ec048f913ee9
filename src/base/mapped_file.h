// A file's content as memory, without reading it first. Any thread may read it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// The bytes of a regular file, read from the disk when they are looked at. Nobody may shorten the file
/// meanwhile: looking at bytes that are gone ends the process (SIGBUS). Replacing the file by another
/// (rename) is fine.
class MappedFile {
 public:
  /// Throws Error(System) that names the file and the reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Begins at a page. As long-lived as this object.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
