// The transports of comm.h, by name. Callable from any thread.
#pragma once

#include <span>
#include <string_view>

namespace trireme {

/// How ranks reach one another.
enum class TransportKind { Automatic, InProcess, SharedMemory, Tcp, Ucx };
[[nodiscard]] std::string_view to_text(TransportKind kind);
/// All but Automatic. Transports between processes come first, since a program must fork before it has threads.
[[nodiscard]] std::span<const TransportKind> all_transports();
/// Throws Error(Usage) that lists the names.
[[nodiscard]] TransportKind parse_transport(std::string_view text);
/// Whether this build includes it: ucx is omitted if the library was not found.
[[nodiscard]] bool is_built(TransportKind kind);

/// Undoes a side effect of linking UCX: replaces its handlers for SIGHUP and crashes with the handlers that were
/// installed when the program started (under nohup, none). Call it first in main(); without UCX it does nothing. A SIGHUP
/// that arrived before is lost, unless it was blocked.
void restore_signal_handlers();

}  // namespace trireme
