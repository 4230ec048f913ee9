#include "trireme/flops.h"

#include <algorithm>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/op.h"

namespace trireme {
namespace {

void add_to(Flops& sum, const Flops& more) {
  sum.products += more.products;
  sum.causal_products += more.causal_products;
  sum.others += more.others;
}

/// The share of slots that tokens can have, for each value with slots of experts, [e,g,c,…]; 1 for all other values.
class Occupancy {
 public:
  explicit Occupancy(const Graph& graph) : graph_(graph), shares_(graph.values().size(), 1.0) {
    for (const Node& node : graph.nodes()) {
      for (const ValueId output : node.outputs) {
        share(output) = share_of(node, output);
      }
    }
  }

  /// Of a node's products.
  [[nodiscard]] double of(const Node& node) const {
    double least = 1;
    for (const ValueId input : node.inputs) {
      least = std::min(least, shares_[input]);
    }
    return least;
  }

 private:
  double& share(ValueId id) { return shares_[id]; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }

  [[nodiscard]] double share_of(const Node& node, ValueId output) {
    if (node.op->name == "expert_dispatch") {
      return filled(node.inputs[1], output);
    }
    if (node.op->name == "expert_combine_backward" && output == node.outputs[0]) {
      return filled(node.inputs[2], output);
    }
    for (const ValueId input : node.inputs) {
      if (share(input) < 1 && has_slots_of(output, input)) {
        return share(input);
      }
    }
    return 1;
  }

  /// There is a slot for each of slots[g,n,k] at most, and rows[e,g,c,…] in total.
  [[nodiscard]] double filled(ValueId slots, ValueId rows) const {
    const double choices = static_cast<double>(shape(slots).element_count());
    const double places =
        static_cast<double>(shape(rows).dim(0) * shape(rows).dim(1) * shape(rows).dim(2));
    return places > 0 ? std::min(1.0, choices / places) : 1.0;
  }

  [[nodiscard]] bool has_slots_of(ValueId output, ValueId input) const {
    const auto& a = shape(output).dims();
    const auto& b = shape(input).dims();
    constexpr std::size_t kSlotDims = 3;
    return a.size() >= kSlotDims && b.size() >= kSlotDims &&
           std::equal(a.begin(), a.begin() + kSlotDims, b.begin());
  }

  const Graph& graph_;
  IndexedVector<ValueId, double> shares_;
};

}  // namespace

Flops FlopCount::model() const {
  Flops sum = of(Phase::Forward);
  add_to(sum, of(Phase::Backward));
  sum.products -= repeated.products + empty.products;
  sum.causal_products -= repeated.causal_products + empty.causal_products;
  return sum;
}

Flops FlopCount::hardware() const {
  Flops sum;
  for (const Flops& phase : phases) {
    add_to(sum, phase);
  }
  return sum;
}

FlopCount count_flops(const Graph& graph) {
  FlopCount count;
  const Occupancy occupancy(graph);
  for (const Node& node : graph.nodes()) {
    const Work work = work_of(graph, node);
    add_to(count.phases.at(position_of(node.phase)),
           {work.products, work.products * (1 - work.causal), work.others});
    if (node.phase == Phase::Forward || node.phase == Phase::Backward) {
      const double empty = work.products * (1 - occupancy.of(node));
      add_to(count.empty, {empty, empty, 0});
    }
    if (node.phase == Phase::Backward) {
      add_to(count.repeated,
             {work.products * work.repeated, work.products * work.repeated * (1 - work.causal), 0});
    }
  }
  return count;
}

}  // namespace trireme
