#include "cli/interrupt.h"

#include <atomic>

namespace trireme::cli {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): all that a signal handler can reach
std::atomic<SharedNumber*> interrupt_flag{nullptr};

void on_interrupt(int /*signal*/) {
  if (SharedNumber* flag = interrupt_flag.load()) {
    flag->set(1);
  }
}

}  // namespace

InterruptGuard::InterruptGuard(SharedNumber& flag) {
  interrupt_flag = &flag;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_, nullptr);
}

}  // namespace trireme::cli
