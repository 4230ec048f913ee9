#include "trireme/planner_options.h"

#include <optional>

#include "trireme/message.h"
#include "trireme/named_architecture.h"
#include "trireme/search_text.h"

namespace trireme {
namespace {

/// The power and the price of a device, as given on the command line.
void set_running_costs(Cluster& cluster, const PlannerOptions& o) {
  const auto set = [&](DeviceSpec& device) {
    device.power = o.watts > 0 ? std::optional(Power{o.watts}) : device.power;
    device.price = o.price > 0 ? std::optional(Price{o.price}) : device.price;
  };
  for (NodeKind& kind : cluster.kinds) {
    set(kind.device);
  }
  if (!cluster.is_mixed()) {
    set(cluster.device);
  }
}

}  // namespace

SearchOptions make_search(const PlannerOptions& o) {
  SearchOptions search{.keep = o.keep};
  SearchSpace& space = search.space;
  space.extent = o.wide ? SearchSpace::Extent::Wide : SearchSpace::Extent::Usual;
  if (!o.mesh.empty()) {
    const Mesh mesh = parsed("--mesh", o.mesh, parse_mesh);
    for (const MeshAxis& axis : mesh.axes()) {
      parsed("--mesh", axis.name, [&](const std::string&) { return fix_axis(space, axis), 0; });
    }
  }
  if (!o.schedule.empty()) {
    space.schedules = {parsed("--schedule", o.schedule, parse_pipeline_form)};
  }
  if (!o.recompute.empty()) {
    space.recompute = {parsed("--recompute", o.recompute, parse_recompute_mode)};
  }
  if (o.zero >= 0) {
    space.zero = {o.zero};
  }
  if (o.microbatch > 0) {
    space.microbatch = {o.microbatch};
  }
  if (!o.bucket.empty()) {
    space.buckets = {parsed("--bucket", o.bucket, parse_bytes)};
  }
  if (!o.context.empty()) {
    space.context_modes = {parsed("--context", o.context, parse_context)};
  }
  search.method = o.search == "mcmc" ? SearchMethod::Mcmc : SearchMethod::Exhaustive;
  search.mcmc = o.mcmc;
  if (!o.memory_limit.empty()) {
    search.memory_bytes =
        static_cast<double>(parsed("--memory-limit", o.memory_limit, parse_bytes).count);
  }
  return search;
}

std::string plan_dtype(const PlannerOptions& options, const Cluster& cluster) {
  if (!options.dtype.empty()) {
    return options.dtype;
  }
  const DeviceSpec& device = cluster.device;
  return !device.peak("bf16") && device.peak("f32") ? "f32" : "bf16";
}

TransformerCost make_cost(const PlannerOptions& o, Cluster cluster) {
  const Architecture model = parsed("--model", o.model, named_architecture);
  set_running_costs(cluster, o);
  Workload work{.length = o.length > 0 ? o.length : model.model.context,
                .dtype = plan_dtype(o, cluster),
                .attention = parsed("--attention", o.attention, parse_attention),
                .overlap_tensor = o.overlap_tensor};
  work.recipe = parsed("--recipe", o.recipe,
                       [&](const std::string& text) { return parse_recipe(text, work.dtype); });
  work.batch = parsed("--batch", o.batch,
                      [&](const std::string& text) { return parse_batch(text, work.length); });
  return {model, work, cluster, efficiency_of(cluster)};
}

}  // namespace trireme
