#include "comm/fault_fuzz/leftovers.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/net/fd.h"

namespace trireme::fault_fuzz {
namespace fs = std::filesystem;

std::string isolate() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const bool isolated = unshare(CLONE_NEWNS) == 0 &&
                        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0 &&
                        mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0;
  return isolated ? "" : "a mount namespace is not permitted: " + comm::error_text(errno);
}

Leftovers::Leftovers(Files files) : files_(files), before_(look()) {}

std::set<std::string> Leftovers::look() const {
  std::set<std::string> found;
  const auto add = [&](const char* folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      found.insert(entry.path());
    }
  };
  if (files_ == Files::Checked) {
    add("/dev/shm");
    add("/tmp");
  }
  add("/proc/self/fd");
  return found;
}

std::vector<std::string> Leftovers::find() const {
  std::vector<std::string> left;
  for (const std::string& path : look()) {
    if (!before_.contains(path)) {
      left.push_back(path);
    }
  }
  for (pid_t child = 0; (child = waitpid(-1, nullptr, WNOHANG)) >= 0;) {
    left.push_back(child > 0 ? fmt::format("process {}, which had ended", child) : "a process");
    if (child == 0) {
      break;
    }
  }
  return left;
}

}  // namespace trireme::fault_fuzz
