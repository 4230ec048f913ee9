#include "trireme/plan.h"

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

std::string_view to_text(Plan::Context context) {
  switch (context) {
    case Plan::Context::Gather:
      return "gather";
    case Plan::Context::AllToAll:
      return "all-to-all";
    case Plan::Context::Ring:
      return "ring";
  }
  return "?";
}

Plan::Context parse_context(std::string_view text) {
  for (const Plan::Context context :
       {Plan::Context::Gather, Plan::Context::AllToAll, Plan::Context::Ring}) {
    if (text == to_text(context)) {
      return context;
    }
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format("unknown context parallelism '{}'; use gather, all-to-all or ring", text));
}

std::vector<AxisSharding> default_sharding() {
  return {{"data", {"batch"}},
          {"context", {"sequence"}},
          {"tensor", {"heads", "hidden", "vocabulary"}},
          {"expert", {"batch", "experts"}}};
}

PipelineTable table_of(const Plan& plan) {
  if (plan.table) {
    return *plan.table;
  }
  PipelineOptions options;
  options.ranks = plan.mesh.size("pipe");
  options.microbatches = plan.microbatches;
  options.chunks = plan.chunks;
  const bool forward_first = find_pipeline_schedule(plan.schedule).forward_first;
  return make_pipeline(options.ranks > 1 || forward_first ? plan.schedule : "1f1b", options);
}

}  // namespace trireme
