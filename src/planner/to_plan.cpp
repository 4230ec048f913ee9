#include "trireme/planner.h"

namespace trireme {

Plan to_plan(const RankedLayout& ranked, const Workload& work, int blocks) {
  const ParallelLayout& layout = ranked.layout;
  std::vector<MeshAxis> axes;
  const auto add = [&](const char* name, int size) {
    if (size > 1) {
      axes.push_back({name, size});
    }
  };
  const bool pipe_first = layout.order == ParallelLayout::Order::PipeOutermost;
  add("pipe", pipe_first ? layout.pipe : 1);
  add("data", layout.data / layout.expert);
  add("expert", layout.expert);
  add("pipe", pipe_first ? 1 : layout.pipe);
  add("context", layout.context);
  add("tensor", layout.tensor);
  Plan plan;
  plan.mesh = Mesh(axes);
  plan.microbatches =
      static_cast<int>(work.batch / (static_cast<std::int64_t>(layout.data) * layout.microbatch));
  plan.schedule = std::string(to_text(layout.schedule));
  plan.chunks = layout.chunks;
  plan.zero = layout.zero;
  plan.sequence = layout.sequence && layout.tensor > 1;
  plan.context = layout.context_mode;
  plan.bucket = layout.bucket;
  plan.recompute.mode = layout.recompute;
  plan.stage_blocks = ranked.stage_blocks;
  if (plan.stage_blocks.empty() && blocks % (layout.pipe * layout.chunks) != 0) {
    plan.stage_blocks = deal_blocks(blocks, layout.pipe, layout.chunks);
  }
  require_valid(plan, ErrorKind::Usage, "plan");
  return plan;
}

}  // namespace trireme
