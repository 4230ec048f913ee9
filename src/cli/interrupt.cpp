#include "cli/interrupt.h"

#include <cerrno>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <sys/mman.h>

#include "trireme/error.h"

namespace trireme::cli {
namespace {

static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may set it");

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): all that a signal handler can reach
std::atomic<SharedNumber*> interrupt_flag{nullptr};

void on_interrupt(int /*signal*/) {
  if (SharedNumber* flag = interrupt_flag.load()) {
    flag->set(1);
  }
}

void* shared_page() {
  void* page = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    throw Error(ErrorKind::System, fmt::format("no memory to share with ranks: {}",
                                               std::system_category().message(errno)));
  }
  return page;
}

}  // namespace

SharedNumber::SharedNumber() : value_(new (shared_page()) std::atomic<int>(0)) {}

SharedNumber::~SharedNumber() {
  munmap(value_, sizeof(std::atomic<int>));
}

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
