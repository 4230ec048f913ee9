#include "command_line/interrupt.h"

#include <atomic>
#include <cerrno>
#include <string_view>

#include <unistd.h>

namespace trireme::cli {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): all that a signal handler can reach
std::atomic<SharedNumber*> stop_flag{nullptr};
std::atomic<const StopReply*> stop_reply{nullptr};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// Nothing can be done if it fails.
void write_error(std::string_view text) {
  (void)!write(STDERR_FILENO, text.data(), text.size());
}

const StopReply* reply_now() {
  const StopReply* reply = stop_reply.load();
  const bool over = reply != nullptr && reply->until != nullptr && reply->until->get() != 0;
  return over ? reply->next : reply;
}

void on_stop(int signal) {
  SharedNumber* flag = stop_flag.load();
  const StopReply* reply = reply_now();
  if (flag == nullptr || reply == nullptr) {
    return;
  }
  const int error = errno;
  if (flag->set_first(signal)) {
    write_error("\ntrireme: ");
    write_error(reply->text);
    write_error("\n");
  }
  if (reply->at_once) {
    _exit(exit_code_of(signal));
  }
  errno = error;
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

InterruptGuard::InterruptGuard(SharedNumber& flag, const StopReply& reply) {
  before_reply_ = stop_reply.exchange(&reply);
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
  stop_reply = before_reply_;
}

}  // namespace trireme::cli
