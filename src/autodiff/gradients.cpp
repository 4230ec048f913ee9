// Reverse-mode differentiation. A node is visited after all users of its results, in reverse order; by then the
// gradient of each result is the sum of its users' contributions. Only nodes on a path from a wanted value to the loss
// are visited.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/autodiff.h"
#include "trireme/error.h"
#include "trireme/op.h"
#include "trireme/op_names.h"

namespace trireme {
namespace {

class Accumulation {
 public:
  Accumulation(Graph graph, ValueId loss, const std::vector<ValueId>& wanted, ValueId seed)
      : values_(graph.values().size()),
        nodes_(graph.nodes().size()),
        builder_(std::move(graph)),
        loss_(loss),
        gradients_(values_),
        depends_(values_, false) {
    const TensorType& type = builder_.type(loss);
    if (type.shape.rank() != 0 || !is_float(type.dtype)) {
      throw Error(ErrorKind::Usage,
                  fmt::format("%{} is {}; gradients are taken of a scalar of floating point",
                              builder_.graph().value(loss).name, to_text(type)));
    }
    mark(wanted);
    builder_.set_phase(Phase::Backward);
    const std::size_t first = builder_.graph().nodes().size();
    gradients_[loss] =
        seed.valid() ? seed
                     : builder_.add1("fill", {},
                                     {{"value", 1.0}, {"dtype", std::string(to_text(type.dtype))}});
    name_nodes_from(first, loss);
  }

  Gradients run(const std::vector<ValueId>& wanted) {
    for (std::size_t i = nodes_; i-- > 0;) {
      visit(builder_.graph().nodes()[i]);
    }
    Gradients result;
    for (const ValueId id : wanted) {
      result.values.push_back(gradients_[id]);
      if (result.values.back().valid()) {
        builder_.rename(result.values.back(), "d_" + builder_.graph().value(id).name);
      }
    }
    result.graph = builder_.finish();
    return result;
  }

 private:
  /// Marks the values that depend on a wanted value.
  void mark(const std::vector<ValueId>& wanted) {
    for (const ValueId id : wanted) {
      depends_[id] = true;
    }
    for (const Node& node : builder_.graph().nodes()) {
      const bool any =
          std::ranges::any_of(node.inputs, [&](ValueId input) { return depends_[input]; });
      for (const ValueId output : node.outputs) {
        depends_[output] = any && is_float(builder_.type(output).dtype);
      }
    }
  }

  void visit(const Node& visited) {
    GradientQuery query{.builder = builder_, .node = visited, .outputs = {}, .wanted = {}};
    bool flows = false;
    for (const ValueId output : visited.outputs) {
      query.outputs.push_back(gradients_[output]);
      flows = flows || query.outputs.back().valid();
    }
    bool any = false;
    for (const ValueId input : visited.inputs) {
      query.wanted.push_back(depends_[input]);
      any = any || query.wanted.back();
    }
    if (!flows || !any || visited.op->gradient == nullptr) {
      return;
    }
    require_smooth(query);
    builder_.set_block(query.node.block);
    const std::size_t first = builder_.graph().nodes().size();
    const std::vector<ValueId> found = query.node.op->gradient(query);
    name_nodes_from(first, query.node.outputs.front());
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (found[k].valid() && query.wanted[k]) {
        accumulate(query.node.inputs[k], found[k]);
      }
    }
  }

  void require_smooth(const GradientQuery& query) const {
    for (std::size_t k = query.node.op->smooth_outputs; k < query.outputs.size(); ++k) {
      if (query.outputs[k].valid()) {
        throw Error(
            ErrorKind::Usage,
            fmt::format("the loss depends on %{}, a result of {} that has no gradient",
                        builder_.graph().value(query.node.outputs[k]).name, query.node.op->name));
      }
    }
  }

  void accumulate(ValueId value, ValueId gradient) {
    ValueId& sum = gradients_[value];
    const std::size_t first = builder_.graph().nodes().size();
    sum = sum.valid() ? builder_.add1("add", {sum, gradient}) : gradient;
    name_nodes_from(first, value);
  }

  /// Names the results of this node and later ones after the value whose gradient they compute.
  void name_nodes_from(std::size_t first, ValueId of) {
    for (std::size_t n = first; n < builder_.graph().nodes().size(); ++n) {
      const Node node = builder_.graph().nodes()[n];
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const std::string result = k == 0 ? "" : fmt::format(".{}", node.op->outputs[k]);
        builder_.rename(node.outputs[k],
                        fmt::format("{}{}/{}{}", kGradientPrefix, builder_.graph().value(of).name,
                                    node.op->name, result));
      }
    }
  }

  std::size_t values_;
  std::size_t nodes_;
  GraphBuilder builder_;
  ValueId loss_;
  IndexedVector<ValueId, ValueId> gradients_;
  IndexedVector<ValueId, bool> depends_;
};

}  // namespace

Gradients add_gradients(Graph graph, ValueId loss, const std::vector<ValueId>& with_respect_to,
                        ValueId seed) {
  Accumulation accumulation(std::move(graph), loss, with_respect_to, seed);
  return accumulation.run(with_respect_to);
}

}  // namespace trireme
