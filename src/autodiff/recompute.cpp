#include "trireme/recompute.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "autodiff/rebuild.h"
#include "autodiff/recompute_analysis.h"
#include "trireme/error.h"
#include "trireme/op_names.h"

namespace trireme {
namespace {

class Recomputation {
 public:
  Recomputation(const Graph& graph, Recomputed what)
      : graph_(graph), what_(std::move(what)), rebuild_(graph) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::Forward) {
        rebuild_.copy(node);
      } else {
        add_later(node);
      }
    }
    return rebuild_.finish();
  }

 private:
  /// A node after the forward, preceded by the recomputation it needs.
  void add_later(const Node& node) {
    for (const ValueId input : node.inputs) {
      if (what_.values[input]) {
        repeat(graph_.node(graph_.value(input).producer).block);
      }
    }
    rebuild_.copy(node, current(node.inputs));
  }

  /// Recomputes the required values of a block, once.
  void repeat(std::int32_t block) {
    if (!repeated_.insert(block).second) {
      return;
    }
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (what_.nodes[n] && node.block == block) {
        repeat(node);
      }
    }
  }

  void repeat(const Node& node) {
    const std::vector<ValueId> results = rebuild_.add(node, current(node.inputs), Phase::Recompute);
    for (std::size_t k = 0; k < results.size(); ++k) {
      rebuild_.builder().rename(
          results[k], fmt::format("{}{}", kRecomputePrefix, graph_.value(node.outputs[k]).name));
      again_[node.outputs[k]] = results[k];
    }
  }

  /// The values that nodes after the forward read instead of these.
  [[nodiscard]] std::vector<ValueId> current(const std::vector<ValueId>& old) const {
    std::vector<ValueId> found;
    found.reserve(old.size());
    for (const ValueId id : old) {
      found.push_back(what_.values[id] ? again_.at(id) : rebuild_.now(id));
    }
    return found;
  }

  const Graph& graph_;
  Recomputed what_;
  Rebuild rebuild_;
  std::set<std::int32_t> repeated_;
  std::map<ValueId, ValueId> again_;
};

}  // namespace

Graph recompute(const Graph& graph, const RecomputeOptions& options) {
  return Recomputation(graph, RecomputeAnalysis(graph).of(options)).run();
}

Graph recompute_by(const Graph& graph, const RecomputeChoice& choice) {
  if (!choice.budget) {
    return choice.any() ? recompute(graph, {.mode = choice.mode, .blocks = {}}) : graph;
  }
  const std::optional<RecomputePlan> plan = plan_recompute(graph, *choice.budget);
  if (!plan) {
    const Bytes least = kept_bytes(recompute(graph, {.mode = RecomputeMode::Full, .blocks = {}}));
    throw Error(ErrorKind::Usage,
                fmt::format("activations cannot be kept within {}: with everything recomputed they "
                            "take {}; give more, or make the batch smaller",
                            to_text(*choice.budget), to_text(least)));
  }
  return recompute(graph, {.mode = RecomputeMode::None, .blocks = plan->blocks});
}

Bytes kept_bytes(const Graph& graph) {
  return RecomputeAnalysis(graph).of({}).kept;
}

}  // namespace trireme
