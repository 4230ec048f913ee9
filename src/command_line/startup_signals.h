// Signals that arrive while the program's libraries are initialized.
#pragma once

namespace trireme::cli {

/// Call first in main(). UCX's library, when it is initialized, discards SIGHUP. Linking this file therefore blocks SIGHUP
/// before any library runs, and this function restores the handlers and the mask that the program was started with, so
/// that a SIGHUP that arrived in between takes effect.
void restore_startup_signals();

}  // namespace trireme::cli
