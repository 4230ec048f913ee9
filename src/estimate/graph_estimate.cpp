// Counts on the real graph: its nodes' work by kind, and its memory as the program plans it.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/estimate.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// The operands in which a factor of a product appears.
struct Where {
  bool a = false;
  bool b = false;
  bool result = false;
};

std::vector<Where> places_of(const Factors& factors) {
  std::vector<Where> places(factors.factors.size());
  const auto mark = [&](const Factors::Dims& dims, bool Where::*operand) {
    for (const std::vector<std::int32_t>& dim : dims) {
      for (const std::int32_t factor : dim) {
        places.at(factor).*operand = true;
      }
    }
  };
  mark(factors.inputs.at(0), &Where::a);
  mark(factors.inputs.at(1), &Where::b);
  mark(factors.outputs.at(0), &Where::result);
  return places;
}

/// "matmul 8192x768x3072": rows x inner x columns; "4 matmul …" if one node comprises four of them.
std::string product_name(const Graph& graph, const Node& node) {
  const Factors factors = factors_of(graph, node);
  const std::vector<Where> places = places_of(factors);
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t inner = 1;
  std::int64_t columns = 1;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Where& at = places[i];
    std::int64_t& size = !at.result ? inner : at.a && at.b ? batch : at.a ? rows : columns;
    size *= factors.factors[i].size;
  }
  return fmt::format("{}matmul {}x{}x{}", batch == 1 ? "" : fmt::format("{} ", batch), rows, inner,
                     columns);
}

std::string kind_of(const Graph& graph, const Node& node) {
  return node.op->name == "einsum" ? product_name(graph, node) : std::string(node.op->name);
}

}  // namespace

std::vector<OpKind> op_kinds(const Graph& graph) {
  std::map<std::string, OpKind> sums;
  for (const Node& node : graph.nodes()) {
    if (node.op->is_view) {
      continue;
    }
    const Work work = work_of(graph, node);
    OpKind& sum = sums[kind_of(graph, node)];
    ++sum.nodes;
    sum.flops += work.products + work.others;
    sum.bytes += work.bytes;
  }
  std::vector<OpKind> kinds;
  for (auto& [name, sum] : sums) {
    sum.name = name;
    kinds.push_back(std::move(sum));
  }
  std::ranges::stable_sort(kinds,
                           [](const OpKind& a, const OpKind& b) { return a.bytes > b.bytes; });
  return kinds;
}

Seconds least_time(const std::vector<OpKind>& kinds, const Roofline& roofline) {
  Seconds sum{};
  for (const OpKind& kind : kinds) {
    sum.count += roofline.time(kind.flops, kind.bytes).count;
  }
  return sum;
}

GraphEstimate estimate_graph(const Graph& graph) {
  return {.flops = count_flops(graph),
          .kinds = op_kinds(graph),
          .memory = memory_use(make_program(graph)),
          .kept = kept_bytes(graph)};
}

Graph training_step(const Architecture& architecture, const StepOptions& options) {
  require_valid(architecture);
  if (!architecture.is_buildable()) {
    throw Error(ErrorKind::Usage,
                fmt::format("model {}: no graph supports experts with a separate hidden width",
                            architecture.model.name));
  }
  ModelConfig config = architecture.model;
  config.dtype = options.dtype;
  const Model model = make_model(config, options.batch);
  TrainingOptions training{.optimizer = options.optimizer, .clip_limit = 1.0};
  training.dim_names = dim_names(model.graph);
  Graph graph = make_training_graph(model.graph, training);
  graph = recompute(graph, {.mode = options.recompute});
  return options.fused ? fuse_elementwise(graph) : graph;
}

RooflineEstimate at_roofline(const GraphEstimate& graph, const Roofline& roofline) {
  RooflineEstimate best{.time = least_time(graph.kinds, roofline)};
  best.mfu = utilization(graph.flops.model().products, best.time, roofline.peak);
  best.hfu = utilization(graph.flops.hardware().products, best.time, roofline.peak);
  return best;
}

}  // namespace trireme
