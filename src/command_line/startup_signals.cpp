#include "command_line/startup_signals.h"

#include <csignal>

#include "trireme/transport_kind.h"

namespace trireme::cli {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): it runs before anything could own them
sigset_t mask_at_start;

void block_hangup(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  sigset_t hangup;
  sigemptyset(&hangup);
  sigaddset(&hangup, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &hangup, &mask_at_start);
}

/// The loader calls what this section of a program lists before it initializes the libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*before_libraries)(int, char**,
                                                                       char**) = block_hangup;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void restore_startup_signals() {
  restore_signal_handlers();
  pthread_sigmask(SIG_SETMASK, &mask_at_start, nullptr);
}

}  // namespace trireme::cli
