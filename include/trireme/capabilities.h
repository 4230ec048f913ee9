// Which operations run on which transports with which types, determined by running them. One call at a time.
#pragma once

#include <string>
#include <vector>

#include "trireme/tensor.h"
#include "trireme/transport_kind.h"

namespace trireme::measure {

/// One row of the matrix.
struct Capability {
  std::string operation{};     ///< the collective's name on the command line, or "send and receive"
  std::vector<DType> types{};  ///< for which it returned the correct result
};

struct TransportCapabilities {
  TransportKind transport = TransportKind::InProcess;
  bool built = true;               ///< false: this build omits the transport, and there are no rows
  std::vector<Capability> rows{};  ///< the nine collectives, then messages
};

/// Runs every operation with every type once between two ranks: threads for in-process, otherwise processes, so call it
/// before creating any thread. Automatic transport is not allowed. Throws Error if the ranks cannot start.
[[nodiscard]] TransportCapabilities find_capabilities(TransportKind transport);

}  // namespace trireme::measure
