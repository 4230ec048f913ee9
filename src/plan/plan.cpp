#include "trireme/plan.h"

#include "base/enum_names.h"

namespace trireme {
namespace {

constexpr auto kContexts = enum_names<Plan::Context>("gather", "all-to-all", "ring");

}  // namespace

std::string_view to_text(Plan::Context context) {
  return kContexts[context];
}

Plan::Context parse_context(std::string_view text) {
  return kContexts.parse("context parallelism", text);
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
