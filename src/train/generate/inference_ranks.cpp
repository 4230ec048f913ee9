#include "train/generate/inference_ranks.h"

#include <memory>

#include "train/run/ranks.h"
#include "train/step/step_graph.h"
#include "trireme/comm.h"
#include "trireme/error.h"
#include "trireme/model_dims.h"
#include "trireme/shared_number.h"

namespace trireme::train {
namespace {

using Body = std::function<void(Device& device, Communicator* communicator)>;

void run_forked(const InferenceRanks& ranks, const std::function<void(World&)>& rank_body) {
  SharedNumber refused;  // 1: a rank reported a usage or input error
  const auto checked = [&](World& world) {
    try {
      rank_body(world);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Input) {
        refused.set(1);
      }
      throw;
    }
  };
  if (launch(ranks.mesh.devices(), checked, rank_world_options()) != 0) {
    throw Error(refused.get() != 0 ? ErrorKind::Input : ErrorKind::Peer,
                "a rank failed; see its message above");
  }
}

}  // namespace

void run_inference(const InferenceRanks& ranks, const Body& body) {
  const int count = ranks.mesh.devices();
  if (count == 1) {
    body(*ranks.make_device({}), nullptr);
    return;
  }
  const auto rank_body = [&](World& world) {
    const std::unique_ptr<Device> device =
        ranks.make_device({.rank = world.rank(), .ranks = count});
    Communicator communicator(world, ranks.mesh);
    body(*device, &communicator);
  };
  if (ranks.kind == RankKind::Threads) {
    run_threads(count, rank_body, rank_world_options());
  } else {
    run_forked(ranks, rank_body);
  }
}

CompiledPlan compile_inference(Graph graph, const Plan& plan) {
  DimNames names = dim_names(graph);
  for (const char* input : {"tokens", "targets"}) {
    names.erase(input);
  }
  const Plan own = make_evaluation_plan(plan, graph);
  return CompiledPlan(NamedGraph{.graph = std::move(graph), .names = std::move(names)}, own);
}

}  // namespace trireme::train
