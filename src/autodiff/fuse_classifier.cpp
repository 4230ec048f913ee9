// Replaces the ops of a cross-entropy and its backward,
//
//   logits = einsum(h, w)                                     classes are a letter of w
//   top = reduce_max(logits); sum, picked = cross_entropy_sums(logits, targets, top)
//   loss = cross_entropy(sum, picked, top, targets)
//   dsum, dpicked = cross_entropy_backward(dloss, sum, targets)
//   dlogits = cross_entropy_sums_backward(dsum, dpicked, logits, targets, top)
//   dh = einsum(dlogits, w), dw = einsum(h, dlogits)
//
// by one `classifier` node in the place of the loss. The nodes that dloss needs move before it: constants, if the loss is a
// mean. If the number of classes is not a multiple of 8, w and so the logits are padded with rows of 0, because matrix
// products of unaligned rows run at a fraction of their speed. The gradient of w is cut back to its size, so parameters,
// checkpoints and losses do not change.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "autodiff/readers.h"
#include "autodiff/rebuild.h"
#include "graph/einsum.h"
#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

constexpr std::int64_t kAligned = 8;
constexpr std::int64_t kPaddedTo = 128;

/// The nodes of one cross-entropy, by index, and how its classes are padded.
struct Classifier {
  std::size_t product = 0;  ///< computes the logits
  std::size_t top = 0;
  std::size_t sums = 0;
  std::size_t loss = 0;
  std::size_t loss_backward = 0;
  std::size_t sums_backward = 0;
  std::vector<std::size_t> early{};  ///< what dloss needs, in order
  std::int64_t classes = 0;
  std::int64_t padded = 0;  ///< equal to classes: not padded
};

class ClassifierFinder {
 public:
  explicit ClassifierFinder(const Graph& graph) : graph_(graph), readers_(graph) {}

  /// Found by the node that computes dlogits. nullopt if the nodes around it do not match the pattern above.
  [[nodiscard]] std::optional<Classifier> find(std::size_t sums_backward) const {
    Classifier c{.sums_backward = sums_backward};
    if (!find_nodes(c) || !nothing_else_reads(c) || !find_early(c)) {
      return std::nullopt;
    }
    c.classes = graph_.value(input(sums_backward, 2)).type.shape.dims().back();
    c.padded = can_pad(c) ? (c.classes + kPaddedTo - 1) / kPaddedTo * kPaddedTo : c.classes;
    return c;
  }

 private:
  [[nodiscard]] const Node& node(std::size_t n) const { return graph_.nodes()[n]; }
  [[nodiscard]] ValueId input(std::size_t n, std::size_t k) const { return node(n).inputs[k]; }
  [[nodiscard]] ValueId output(std::size_t n, std::size_t k) const { return node(n).outputs[k]; }

  /// The maker of a value, if it is such an op.
  [[nodiscard]] bool made_by(ValueId value, std::string_view op, std::size_t& found) const {
    const std::optional<std::size_t> maker = readers_.maker(value);
    found = maker.value_or(0);
    return maker && node(found).op->name == op;
  }
  /// The node of this op that reads the value, if there is exactly one.
  [[nodiscard]] bool read_by(ValueId value, std::string_view op, std::size_t& found) const {
    std::set<std::size_t> nodes;
    std::ranges::copy_if(readers_.of(value), std::inserter(nodes, nodes.end()),
                         [&](std::size_t n) { return node(n).op->name == op; });
    found = nodes.empty() ? 0 : *nodes.begin();
    return nodes.size() == 1;
  }

  bool find_nodes(Classifier& c) const {
    const std::size_t b = c.sums_backward;
    const ValueId logits = input(b, 2);
    const Signature s = signature_of(graph_, node(b));
    const std::int64_t width = s.shape(2).dims().back();
    const bool is_whole =
        s.integer("first") == 0 && (s.integer("classes") == 0 || s.integer("classes") == width);
    return is_whole && made_by(logits, "einsum", c.product) &&
           made_by(input(b, 4), "reduce_max", c.top) && input(c.top, 0) == logits &&
           made_by(input(b, 0), "cross_entropy_backward", c.loss_backward) &&
           output(c.loss_backward, 0) == input(b, 0) && output(c.loss_backward, 1) == input(b, 1) &&
           made_by(input(c.loss_backward, 1), "cross_entropy_sums", c.sums) &&
           node(c.sums).inputs == std::vector{logits, input(b, 3), input(b, 4)} &&
           read_by(output(c.sums, 1), "cross_entropy", c.loss) &&
           node(c.loss).inputs ==
               std::vector{output(c.sums, 0), output(c.sums, 1), input(b, 4), input(b, 3)} &&
           input(c.loss_backward, 2) == input(b, 3);
  }

  [[nodiscard]] bool nothing_else_reads(const Classifier& c) const {
    return readers_.are_among(input(c.sums_backward, 2), {c.top, c.sums, c.sums_backward}) &&
           readers_.are_among(output(c.top, 0), {c.sums, c.loss, c.sums_backward}) &&
           readers_.are_among(output(c.sums, 0), {c.loss, c.loss_backward}) &&
           readers_.are_among(output(c.sums, 1), {c.loss}) &&
           readers_.are_among(output(c.loss_backward, 0), {c.sums_backward}) &&
           readers_.are_among(output(c.loss_backward, 1), {c.sums_backward});
  }

  /// What dloss needs and the loss does not precede. Fails if it depends on the loss or on other ranks.
  bool find_early(Classifier& c) const {
    std::set<std::size_t> early;
    std::vector<ValueId> wanted{input(c.loss_backward, 0)};
    while (!wanted.empty()) {
      const std::optional<std::size_t> maker = readers_.maker(wanted.back());
      wanted.pop_back();
      if (!maker || *maker < c.loss || !early.insert(*maker).second) {
        continue;
      }
      if (*maker == c.loss || node(*maker).op->communicates) {
        return false;
      }
      wanted.insert(wanted.end(), node(*maker).inputs.begin(), node(*maker).inputs.end());
    }
    c.early.assign(early.begin(), early.end());
    return true;
  }

  /// The classes are the last letter of the logits, and w is the product's second operand.
  [[nodiscard]] bool can_pad(const Classifier& c) const {
    const EinsumLetters letters = parse_equation(signature_of(graph_, node(c.product)));
    const char classes = letters.result.back();
    return c.classes % kAligned != 0 && letters.b.find(classes) != std::string::npos &&
           letters.a.find(classes) == std::string::npos &&
           std::ranges::all_of(readers_.of(output(c.sums_backward, 0)),
                               [&](std::size_t reader) { return can_read_padded(c, reader); }) &&
           !readers_.is_kept(output(c.sums_backward, 0));
  }

  /// A product of dlogits with w, or one whose result has the classes.
  [[nodiscard]] bool can_read_padded(const Classifier& c, std::size_t reader) const {
    if (node(reader).op->name != "einsum" || input(reader, 0) == input(reader, 1)) {
      return false;
    }
    const EinsumLetters letters = parse_equation(signature_of(graph_, node(reader)));
    const bool is_first = input(reader, 0) == output(c.sums_backward, 0);
    const char classes = (is_first ? letters.a : letters.b).back();
    if (letters.result.find(classes) != std::string::npos) {
      return (is_first ? letters.b : letters.a).find(classes) == std::string::npos;
    }
    return input(reader, is_first ? 1 : 0) == input(c.product, 1);
  }

  const Graph& graph_;
  Readers readers_;
};

class ClassifierFusion {
 public:
  explicit ClassifierFusion(const Graph& graph) : graph_(graph), rebuild_(graph) { find(); }

  Graph run() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (const auto found = at_loss_.find(n); found != at_loss_.end()) {
        add_classifier(found->second);
      } else if (!skipped_.contains(n)) {
        copy(n);
      }
    }
    return rebuild_.finish();
  }

 private:
  void find() {
    const ClassifierFinder finder(graph_);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (graph_.nodes()[n].op->name != "cross_entropy_sums_backward") {
        continue;
      }
      if (std::optional<Classifier> c = finder.find(n)) {
        for (const std::size_t gone : {c->product, c->top, c->sums, c->loss_backward, n}) {
          skipped_.insert(gone);
        }
        skipped_.insert(c->early.begin(), c->early.end());
        dlogits_[graph_.nodes()[n].outputs[0]] = *c;
        at_loss_.emplace(c->loss, std::move(*c));
      }
    }
  }

  void add_classifier(const Classifier& c) {
    for (const std::size_t n : c.early) {
      if (moved_.insert(n).second) {
        rebuild_.copy(graph_.nodes()[n]);
      }
    }
    const Node& product = graph_.nodes()[c.product];
    const Node& loss = graph_.nodes()[c.loss];
    rebuild_.copy(product, {rebuild_.now(product.inputs[0]), weight(c)});
    rebuild_.builder().set_phase(loss.phase);
    rebuild_.builder().set_block(loss.block);
    const ValueId logits = rebuild_.now(product.outputs[0]);
    const ValueId dloss = rebuild_.now(graph_.nodes()[c.loss_backward].inputs[0]);
    const std::vector<ValueId> results =
        rebuild_.builder().add("classifier", {logits, rebuild_.now(loss.inputs[3]), dloss},
                               {{"classes", c.padded == c.classes ? 0 : c.classes}});
    const std::array<ValueId, 2> old{loss.outputs[0], graph_.nodes()[c.sums_backward].outputs[0]};
    for (std::size_t k = 0; k < old.size(); ++k) {
      rebuild_.builder().rename(results[k], graph_.value(old[k]).name);
      rebuild_.replace(old[k], results[k]);
    }
  }

  /// The product's second operand with as many classes as the logits have; padded once for all that read it.
  ValueId weight(const Classifier& c) {
    const Node& product = graph_.nodes()[c.product];
    const ValueId w = product.inputs[1];
    if (c.padded == c.classes) {
      return rebuild_.now(w);
    }
    const auto found = padded_.find(w);
    if (found != padded_.end()) {
      return found->second;
    }
    const EinsumLetters letters = parse_equation(signature_of(graph_, product));
    std::vector<std::int64_t> before(letters.b.size(), 0);
    std::vector<std::int64_t> after = before;
    after[letters.b.find(letters.result.back())] = c.padded - c.classes;
    rebuild_.builder().set_phase(product.phase);
    rebuild_.builder().set_block(product.block);
    return padded_[w] = rebuild_.builder().add1("pad", {rebuild_.now(w)},
                                                {{"before", before}, {"after", after}});
  }

  /// Products of padded gradients use the padded weight, or strip the padding.
  void copy(std::size_t n) {
    const Node& node = graph_.nodes()[n];
    const auto padded = std::ranges::find_if(node.inputs, [&](ValueId id) {
      const auto found = dlogits_.find(id);
      return found != dlogits_.end() && found->second.padded != found->second.classes;
    });
    if (padded == node.inputs.end()) {
      rebuild_.copy(node);
      return;
    }
    const auto operand = padded - node.inputs.begin();
    const EinsumLetters letters = parse_equation(signature_of(graph_, node));
    const char classes = (operand == 0 ? letters.a : letters.b).back();
    const std::size_t axis = letters.result.find(classes);
    if (axis == std::string::npos) {
      std::vector<ValueId> inputs = rebuild_.now(node.inputs);
      inputs[1 - operand] = padded_.at(node.inputs[1 - operand]);
      rebuild_.copy(node, std::move(inputs));
      return;
    }
    const ValueId whole = rebuild_.add(node, rebuild_.now(node.inputs), node.phase).front();
    const Value& old = graph_.value(node.outputs[0]);
    const ValueId part =
        rebuild_.builder().add1("slice", {whole},
                                {{"begin", std::vector<std::int64_t>(letters.result.size(), 0)},
                                 {"end", old.type.shape.dims()}});
    rebuild_.builder().rename(part, old.name);
    rebuild_.replace(node.outputs[0], part);
  }

  const Graph& graph_;
  Rebuild rebuild_;
  std::map<std::size_t, Classifier> at_loss_;  ///< by the node that computes the loss
  std::map<ValueId, Classifier> dlogits_;
  std::map<ValueId, ValueId> padded_;  ///< by weight
  std::set<std::size_t> skipped_;
  std::set<std::size_t> moved_;
};

}  // namespace

Graph fuse_classifier(const Graph& graph) {
  return ClassifierFusion(graph).run();
}

}  // namespace trireme
