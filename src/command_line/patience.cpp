#include "command_line/patience.h"

#include <cerrno>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace trireme::cli {
namespace {

constexpr unsigned kSeconds = 10;

void on_alarm(int /*signal*/) {
  constexpr std::string_view kMessage = "trireme: still computing\n";
  const int error = errno;
  (void)!write(STDERR_FILENO, kMessage.data(), kMessage.size());  // nothing to do if it fails
  alarm(kSeconds);
  errno = error;
}

}  // namespace

Patience::Patience(const std::string& reason) {
  fmt::print(stderr, "trireme: {}: this may take minutes; Ctrl-C stops it\n", reason);
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before_);
  alarm(kSeconds);
}

Patience::~Patience() {
  alarm(0);
  sigaction(SIGALRM, &before_, nullptr);
}

}  // namespace trireme::cli
