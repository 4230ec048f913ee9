// A small disk for one test process, and a /dev/shm of its own.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace trireme {

/// Whether this process now has its own mounts, so that whatever it mounts ends with it. Once per process; needs
/// the right to do so.
inline bool has_private_mounts() {
  static const bool has = unshare(CLONE_NEWNS) == 0 &&
                          mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
  return has;
}

/// Mounts an empty disk of this size on an existing folder. Requires has_private_mounts().
inline bool mount_disk(const std::string& folder, std::string_view size) {
  return mount("tmpfs", folder.c_str(), "tmpfs", 0, fmt::format("size={}", size).c_str()) == 0;
}

/// Writes a file until the disk is full.
inline void fill_disk(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  const std::string block(4096, 'x');
  while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
  }
}

}  // namespace trireme
