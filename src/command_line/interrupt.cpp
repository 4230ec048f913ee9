#include "command_line/interrupt.h"

#include <atomic>
#include <cerrno>
#include <string_view>

#include <unistd.h>

namespace trireme::cli {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): all that a signal handler can reach
std::atomic<SharedNumber*> stop_flag{nullptr};
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): as above
std::atomic<const char*> stop_notice{""};

void write_error(std::string_view text) {
  (void)!write(STDERR_FILENO, text.data(), text.size());  // nothing to do if it fails
}

void on_stop(int signal) {
  SharedNumber* flag = stop_flag.load();
  if (flag != nullptr && flag->set_first(signal)) {
    const int error = errno;
    write_error("\ntrireme: stopping: ");
    write_error(stop_notice.load());
    write_error(" (again: stops immediately)\n");
    errno = error;
  }
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

InterruptGuard::InterruptGuard(SharedNumber& flag, const char* what_follows) {
  stop_notice = what_follows;
  stop_flag = &flag;
  struct sigaction action {};
  action.sa_handler = on_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals.at(i), &action, &before_.at(i));
    if (is_ignored(before_.at(i))) {
      sigaction(kStopSignals.at(i), &before_.at(i), nullptr);
    }
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals.at(i), &before_.at(i), nullptr);
  }
}

}  // namespace trireme::cli
