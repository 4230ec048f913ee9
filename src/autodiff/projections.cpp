#include "autodiff/projections.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "autodiff/readers.h"
#include "graph/einsum.h"
#include "trireme/op.h"

namespace trireme {
namespace {

class ProjectionFinder {
 public:
  explicit ProjectionFinder(const Graph& graph)
      : graph_(graph), readers_(graph), is_fused_(graph.nodes().size(), false) {}

  /// Of the products behind an attention. Nothing if anything does not match.
  std::optional<Projection> find(std::size_t attention) {
    found_ = {};
    matched_.clear();
    if (is_fused_[attention] || !find_products(attention) || !follow(0) || !nothing_else_reads()) {
      return std::nullopt;
    }
    for (const std::size_t n : matched_) {
      is_fused_[n] = true;
    }
    return std::move(found_);
  }

  /// By node, whether it belongs to the match.
  [[nodiscard]] const std::vector<bool>& is_fused() const { return is_fused_; }

 private:
  using Kind = PackedStep::Kind;
  using Parts = std::array<ValueId, 3>;

  [[nodiscard]] const Node& node(std::size_t n) const { return graph_.nodes()[n]; }
  [[nodiscard]] EinsumLetters letters(std::size_t n) const {
    return parse_equation(signature_of(graph_, node(n)));
  }
  [[nodiscard]] bool makes(const Parts& parts, std::size_t count, std::string_view op) const {
    return std::all_of(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](ValueId part) {
                         const auto maker = readers_.maker(part);
                         return maker && node(*maker).op->name == op;
                       });
  }
  [[nodiscard]] std::size_t maker(ValueId value) const { return *readers_.maker(value); }

  /// From the attention up to the products.
  bool find_products(std::size_t attention) {
    const std::vector<ValueId>& inputs = node(attention).inputs;
    Parts parts{inputs[0], inputs[1], inputs[2]};
    for (;;) {
      const bool biased = makes(parts, 3, "add");
      if (!biased && !makes(parts, 2, "rope")) {
        break;
      }
      for (std::size_t k = 0; k < (biased ? 3 : 2); ++k) {
        parts[k] = node(maker(parts[k])).inputs[0];
      }
    }
    return makes(parts, 3, "einsum") && add_products(parts);
  }

  bool add_products(const Parts& parts) {
    const std::vector<std::size_t> nodes{maker(parts[0]), maker(parts[1]), maker(parts[2])};
    const Node& first = node(nodes[0]);
    const EinsumLetters found = letters(nodes[0]);
    const bool same = std::ranges::all_of(nodes, [&](std::size_t n) {
      return node(n).inputs[0] == first.inputs[0] && is_like(n, nodes[0]);
    });
    if (!same || nodes[0] == nodes[1] || nodes[1] == nodes[2] || nodes[0] == nodes[2] ||
        found.result.size() != 4 || found.a.find(found.result[kHeadAxis]) != std::string::npos) {
      return false;
    }
    found_.values.push_back({parts, std::ranges::max(nodes)});
    add(std::ranges::max(nodes), {.kind = Kind::Product, .nodes = nodes});
    return true;
  }

  void add(std::size_t at, PackedStep step) {
    matched_.insert(matched_.end(), step.nodes.begin(), step.nodes.end());
    found_.steps.emplace(at, std::move(step));
  }
  [[nodiscard]] bool is_found(std::size_t n) const {
    return is_fused_[n] || std::ranges::find(matched_, n) != matched_.end();
  }

  /// Finds what reads a packed value, and what reads the results.
  bool follow(std::size_t value) {
    const ValueId first = found_.values[value].parts[0];
    for (const std::size_t n : readers_.of(first)) {
      if (!is_found(n) && !follow(value, n)) {
        return false;
      }
    }
    return true;
  }

  bool follow(std::size_t value, std::size_t n) {
    const std::string_view op = node(n).op->name;
    if (op == "attention" || op == "attention_backward") {
      return add_attention(value, n);
    }
    if (op == "rope") {
      return add_rotation(value, n);
    }
    const std::optional<std::vector<std::size_t>> nodes = readers_like(value, n);
    return nodes && ((op == "add" && add_bias(value, *nodes)) ||
                     (op == "reduce_sum" && add_bias_gradient(value, *nodes)) ||
                     (op == "einsum" &&
                      (add_weight_gradient(value, *nodes) || add_input_gradient(value, *nodes))));
  }

  [[nodiscard]] bool is_like(std::size_t n, std::size_t other) const {
    return node(n).op == node(other).op && node(n).attributes == node(other).attributes &&
           node(n).phase == node(other).phase && node(n).block == node(other).block;
  }
  /// The reader of k or v that does with it what node n does with q.
  [[nodiscard]] std::optional<std::size_t> reader_like(std::size_t n, ValueId q,
                                                       ValueId part) const {
    const auto operand = std::ranges::find(node(n).inputs, q) - node(n).inputs.begin();
    const std::vector<std::size_t>& all = readers_.of(part);
    const auto found = std::ranges::find_if(all, [&](std::size_t other) {
      return !is_found(other) && is_like(other, n) && node(other).inputs[operand] == part;
    });
    return found != all.end() ? std::optional(*found) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::vector<std::size_t>> readers_like(std::size_t value,
                                                                     std::size_t n) const {
    const Parts& parts = found_.values[value].parts;
    const auto of_k = reader_like(n, parts[0], parts[1]);
    const auto of_v = reader_like(n, parts[0], parts[2]);
    return of_k && of_v ? std::optional(std::vector{n, *of_k, *of_v}) : std::nullopt;
  }

  /// A packed value made by the step, and all that reads it.
  bool add_result(std::size_t at, PackedStep step, const Parts& parts, bool is_gradient) {
    step.result = found_.values.size();
    const std::size_t result = step.result;
    found_.values.push_back({parts, at, is_gradient});
    add(at, std::move(step));
    return follow(result);
  }
  /// The results of these nodes. With two nodes, v does not change.
  [[nodiscard]] Parts results(std::size_t value, const std::vector<std::size_t>& nodes) const {
    Parts parts = found_.values[value].parts;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      parts[k] = node(nodes[k]).outputs[0];
    }
    return parts;
  }
  /// Where a step of the forward can be added that needs all operands of these nodes.
  [[nodiscard]] std::size_t after(std::size_t value, const std::vector<std::size_t>& nodes) const {
    return std::max(found_.values[value].ready, std::ranges::max(nodes));
  }

  bool add_attention(std::size_t value, std::size_t n) {
    const bool is_backward = node(n).op->name == "attention_backward";
    const Parts& parts = found_.values[value].parts;
    const std::vector<ValueId>& inputs = node(n).inputs;
    const auto first = inputs.begin() + (is_backward ? 1 : 0);
    if (!std::equal(parts.begin(), parts.end(), first) || found_.values[value].is_gradient ||
        (is_backward && (inputs[0] == parts[0] || inputs[4] == parts[0]))) {
      return false;
    }
    PackedStep step{.kind = is_backward ? Kind::AttentionBackward : Kind::Attention,
                    .nodes = {n},
                    .operand = value};
    if (!is_backward) {
      add(n, std::move(step));
      return true;
    }
    const std::vector<ValueId>& outputs = node(n).outputs;
    return add_result(n, std::move(step), {outputs[0], outputs[1], outputs[2]}, true);
  }

  /// The backward rotates as soon as it can: gradients of v may be read before.
  bool add_rotation(std::size_t value, std::size_t n) {
    const PackedValue from = found_.values[value];
    const auto of_k = reader_like(n, from.parts[0], from.parts[1]);
    if (!of_k || signature_of(graph_, node(n)).integer("heads") != 0) {
      return false;
    }
    const std::vector<std::size_t> nodes{n, *of_k};
    return add_result(from.is_gradient ? from.ready : after(value, nodes),
                      {.kind = Kind::Rotation, .nodes = nodes, .operand = value},
                      results(value, nodes), from.is_gradient);
  }

  bool add_bias(std::size_t value, const std::vector<std::size_t>& nodes) {
    const Parts& parts = found_.values[value].parts;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const std::vector<ValueId>& inputs = node(nodes[k]).inputs;
      if (inputs[0] != parts[k] || graph_.value(inputs[1]).type.shape.rank() != 2 ||
          graph_.value(inputs[1]).type.shape.dim(0) != heads(parts[k])) {
        return false;
      }
    }
    return !found_.values[value].is_gradient &&
           add_result(after(value, nodes), {.kind = Kind::Bias, .nodes = nodes, .operand = value},
                      results(value, nodes), false);
  }
  [[nodiscard]] std::int64_t heads(ValueId part) const {
    return graph_.value(part).type.shape.dim(kHeadAxis);
  }

  bool add_bias_gradient(std::size_t value, const std::vector<std::size_t>& nodes) {
    const Signature s = signature_of(graph_, node(nodes[0]));
    if (!found_.values[value].is_gradient ||
        s.integers("axes") != std::vector<std::int64_t>{0, 1}) {
      return false;
    }
    add(before(value, nodes), {.kind = Kind::BiasGradient, .nodes = nodes, .operand = value});
    return true;
  }
  /// Where the first of these nodes is, once there is the packed value.
  [[nodiscard]] std::size_t before(std::size_t value, const std::vector<std::size_t>& nodes) const {
    return std::max(found_.values[value].ready, std::ranges::min(nodes));
  }

  /// The operand of a product that is not part of a packed value, by product.
  [[nodiscard]] ValueId other(std::size_t value, std::size_t k, std::size_t n) const {
    const std::vector<ValueId>& inputs = node(n).inputs;
    return inputs[inputs[0] == found_.values[value].parts[k] ? 1 : 0];
  }

  bool add_weight_gradient(std::size_t value, const std::vector<std::size_t>& nodes) {
    const ValueId x = other(value, 0, nodes[0]);
    const EinsumLetters found = letters(nodes[0]);
    const bool is_first = node(nodes[0]).inputs[0] == found_.values[value].parts[0];
    const char head = (is_first ? found.a : found.b)[kHeadAxis];
    if (!found_.values[value].is_gradient || other(value, 1, nodes[1]) != x ||
        other(value, 2, nodes[2]) != x ||
        (is_first ? found.b : found.a).find(head) != std::string::npos) {
      return false;
    }
    add(before(value, nodes), {.kind = Kind::WeightGradient, .nodes = nodes, .operand = value});
    return true;
  }

  /// Products that nothing but the sum of the three reads.
  bool add_input_gradient(std::size_t value, const std::vector<std::size_t>& nodes) {
    const EinsumLetters found = letters(nodes[0]);
    const bool is_first = node(nodes[0]).inputs[0] == found_.values[value].parts[0];
    if (!found_.values[value].is_gradient || !is_first) {
      return false;
    }
    const char head = found.a[kHeadAxis];
    if (found.b.find(head) == std::string::npos || found.result.find(head) != std::string::npos) {
      return false;
    }
    const std::optional<std::array<std::size_t, 2>> sums = sums_of(nodes);
    if (!sums) {
      return false;
    }
    matched_.push_back((*sums)[0]);
    matched_.push_back((*sums)[1]);
    add((*sums)[1], {.kind = Kind::InputGradient,
                     .nodes = nodes,
                     .operand = value,
                     .sum = node((*sums)[1]).outputs[0]});
    return true;
  }

  /// The `add` of two of the results, and that of the third.
  [[nodiscard]] std::optional<std::array<std::size_t, 2>> sums_of(
      const std::vector<std::size_t>& nodes) const {
    std::array<std::optional<std::size_t>, 3> reader;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      reader[k] = readers_.only(node(nodes[k]).outputs[0]);
      if (!reader[k] || node(*reader[k]).op->name != "add") {
        return std::nullopt;
      }
    }
    for (std::size_t last = 0; last < nodes.size(); ++last) {
      const std::size_t inner = *reader[(last + 1) % 3];
      const std::size_t outer = *reader[last];
      if (inner == *reader[(last + 2) % 3] && inner != outer &&
          readers_.only(node(inner).outputs[0]) == outer) {
        return std::array{inner, outer};
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool nothing_else_reads() const {
    return std::ranges::all_of(found_.values, [&](const PackedValue& value) {
      return std::ranges::all_of(value.parts,
                                 [&](ValueId part) { return readers_.are_among(part, matched_); });
    });
  }

  const Graph& graph_;
  Readers readers_;
  std::vector<bool> is_fused_;
  Projection found_;
  std::vector<std::size_t> matched_;  ///< nodes of the match
};

}  // namespace

Projections find_projections(const Graph& graph) {
  ProjectionFinder finder(graph);
  Projections found;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (graph.nodes()[n].op->name == "attention") {
      if (std::optional<Projection> projection = finder.find(n)) {
        found.all.push_back(std::move(*projection));
      }
    }
  }
  found.is_fused = finder.is_fused();
  return found;
}

}  // namespace trireme
