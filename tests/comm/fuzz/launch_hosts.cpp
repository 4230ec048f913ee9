#include "launch_hosts.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme::fuzz {
namespace {

void move_to_host(int host) {
  const std::string name = fmt::format("fuzz-host-{}", host);
  if (unshare(CLONE_NEWUTS) != 0 || sethostname(name.data(), name.size()) != 0) {
    throw Error(ErrorKind::System, "cannot make a UTS namespace");
  }
}

int run_rank(const JoinOptions& where, int host, const std::function<void(World&)>& body,
             const WorldOptions& options) {
  try {
    move_to_host(host);
    World world = join(where, options);
    body(world);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", where.rank, error.what());
    return 1;
  }
}

pid_t start_rank(const std::function<int()>& body) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    throw Error(ErrorKind::System, "cannot fork");
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int code = getppid() == parent ? body() : 1;
    std::fflush(nullptr);
    _exit(code);
  }
  return child;
}

/// The wait status.
int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// A loopback address that no other process of this machine uses: derived from this process's id.
std::string store_address() {
  const auto pid = static_cast<std::uint32_t>(getpid());
  return fmt::format("127.{}.{}.{}:4000", 1 + (pid >> 16) % 250, (pid >> 8) % 256, pid % 256);
}

std::string random_secret() {
  std::random_device device;
  std::string secret;
  while (secret.size() < 64) {
    secret += fmt::format("{:08x}", device());
  }
  return secret;
}

}  // namespace

bool can_make_hosts() {
  const pid_t child = start_rank([] {
    try {
      move_to_host(0);
      return 0;
    } catch (const Error&) {
      return 1;
    }
  });
  return wait_for(child) == 0;
}

int launch_on_hosts(const std::vector<int>& hosts, const std::function<void(World&)>& body,
                    const WorldOptions& options) {
  JoinOptions where{
      .size = static_cast<Rank>(hosts.size()), .store = store_address(), .secret = random_secret()};
  std::vector<pid_t> children;
  for (where.rank = 0; where.rank < where.size; ++where.rank) {
    const int host = hosts[where.rank];
    children.push_back(start_rank([&] { return run_rank(where, host, body, options); }));
  }
  int code = 0;
  for (const pid_t child : children) {
    const int status = wait_for(child);
    if (WIFSIGNALED(status)) {
      fmt::print(stderr, "a rank was ended by signal {}\n", WTERMSIG(status));
    }
    code = status == 0 ? code : 1;
  }
  return code;
}

}  // namespace trireme::fuzz
