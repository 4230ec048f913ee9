// Runs a function on the ranks of a mesh that do not train: in this process if there is one rank, else in forked
// processes or threads.
#pragma once

#include <functional>

#include "trireme/communicator.h"
#include "trireme/compiled_plan.h"
#include "trireme/device.h"
#include "trireme/plan.h"
#include "trireme/train.h"

namespace trireme::train {

struct InferenceRanks {
  Mesh mesh{};
  DeviceFactory make_device{};
  RankKind kind = RankKind::Processes;
};

/// Calls `body` on every rank with its device and, if there are several ranks, its communicator. Throws the only rank's
/// error, or Error(Input or Peer) that refers to a rank's message.
void run_inference(const InferenceRanks& ranks,
                   const std::function<void(Device& device, Communicator* communicator)>& body);

/// The plan without what concerns training, and the compiled graph: dimensions of the batch are not sharded, so that a
/// single sequence runs on every mesh, with the same work on all ranks along data and context.
[[nodiscard]] CompiledPlan compile_inference(Graph graph, const Plan& plan);

}  // namespace trireme::train
