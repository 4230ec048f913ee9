#include "trireme/flops.h"

#include "trireme/op.h"

namespace trireme {
namespace {

void add_to(Flops& sum, const Flops& more) {
  sum.products += more.products;
  sum.causal_products += more.causal_products;
  sum.others += more.others;
}

}  // namespace

Flops FlopCount::model() const {
  Flops sum = of(Phase::Forward);
  add_to(sum, of(Phase::Backward));
  sum.products -= repeated.products;
  sum.causal_products -= repeated.causal_products;
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
  for (const Node& node : graph.nodes()) {
    const Work work = work_of(graph, node);
    add_to(count.phases.at(static_cast<std::size_t>(node.phase)),
           {work.products, work.products * (1 - work.causal), work.others});
    if (node.phase == Phase::Backward) {
      add_to(count.repeated,
             {work.products * work.repeated, work.products * work.repeated * (1 - work.causal), 0});
    }
  }
  return count;
}

}  // namespace trireme
