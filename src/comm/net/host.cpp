#include "comm/net/host.h"

#include <array>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/bytes_moved.h"

namespace trireme::comm {
namespace {

std::string link_text(const char* path) {
  std::array<char, 256> buffer{};
  const ssize_t length = readlink(path, buffer.data(), buffer.size());
  return length > 0 ? std::string(buffer.data(), bytes_moved(length)) : "?";
}

}  // namespace

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}/{}/{}", boot, link_text("/proc/self/ns/net"),
                     link_text("/proc/self/ns/pid"));
}

}  // namespace trireme::comm
