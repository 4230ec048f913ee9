// A kernel of a device against the op's reference. A failure is a fatal one of GoogleTest.
#pragma once

#include "graph/op_cases.h"
#include "trireme/device.h"

namespace trireme::testing {

/// The case's graph; its inputs go through copies, which the op may then overwrite.
[[nodiscard]] Graph graph_with_copies(const OpCase& c, DType real);

/// Runs a graph of one case on the device.
void check_kernel(const OpCase& c, DType real, const Graph& graph, Device& device);

}  // namespace trireme::testing
