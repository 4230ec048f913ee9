#include "command_line/patience.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace trireme::cli {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): all that a signal handler can reach
std::atomic<const SharedNumber*> silent_flag{nullptr};
std::atomic<unsigned> interval{0};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void on_alarm(int /*signal*/) {
  constexpr std::string_view kMessage = "trireme: still computing\n";
  const SharedNumber* flag = silent_flag.load();
  if (flag != nullptr && flag->get() != 0) {
    return;
  }
  const int error = errno;
  (void)!write(STDERR_FILENO, kMessage.data(), kMessage.size());  // nothing to do if it fails
  alarm(interval.load());
  errno = error;
}

}  // namespace

Patience::Patience(const PatienceOptions& options) {
  if (!options.reason.empty()) {
    fmt::print(stderr, "trireme: {}: this may take minutes; Ctrl-C stops it\n", options.reason);
  }
  silent_flag = options.until;
  interval = options.seconds;
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before_);
  alarm(options.seconds);
}

Patience::~Patience() {
  alarm(0);
  sigaction(SIGALRM, &before_, nullptr);
}

}  // namespace trireme::cli
