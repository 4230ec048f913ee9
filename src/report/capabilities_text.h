// The matrix of operations, transports and types, as text and as JSON. Callable from any thread.
#pragma once

#include <span>
#include <string>

#include "report/text_style.h"
#include "trireme/capabilities.h"

namespace trireme::report {

/// Whether everything works on all transports that are built.
[[nodiscard]] bool is_complete(std::span<const measure::TransportCapabilities> transports);

[[nodiscard]] std::string capabilities_text(
    std::span<const measure::TransportCapabilities> transports, const Terminal& terminal);
/// One object: by transport, by operation, the types.
[[nodiscard]] std::string capabilities_json(
    std::span<const measure::TransportCapabilities> transports);

}  // namespace trireme::report
