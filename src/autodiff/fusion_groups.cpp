#include "autodiff/fusion_groups.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/indexed_vector.h"
#include "graph/fused.h"
#include "trireme/op.h"

namespace trireme {
namespace {

constexpr std::size_t kReadFromOutside = std::numeric_limits<std::size_t>::max();

bool is_message(const Outline::Node& node) {
  return node.op->communicates && !node.is_collective;
}

class Grouping {
 public:
  explicit Grouping(const Outline& outline)
      : outline_(outline), group_(outline.nodes.size()), readers_(outline.values.size()) {
    find_joinable();
    find_runs();
  }

  std::vector<std::size_t> run() {
    for (const ValueId output : outline_.outputs) {
      readers_[output] = kReadFromOutside;
    }
    for (const Update& update : outline_.updates) {
      readers_[update.value] = kReadFromOutside;
    }
    for (std::size_t n = outline_.nodes.size(); n-- > 0;) {
      group_[n] = group_of(n);
      for (const ValueId input : outline_.inputs_of(outline_.nodes[n])) {
        note(input, group_[n]);
      }
    }
    return std::move(group_);
  }

 private:
  [[nodiscard]] std::int32_t result_type(const Outline::Node& node) const {
    return outline_.value(outline_.outputs_of(node)[0]).type;
  }

  void find_joinable() {
    for (const Outline::Node& node : outline_.nodes) {
      joinable_.push_back(node.phase != Phase::Update && can_be_fused(*node.op) &&
                          outline_.value(outline_.inputs_of(node)[0]).type == result_type(node));
    }
  }

  /// Whether it is a collective on values that exist from the start: it can start anywhere, but belongs where its
  /// result is needed.
  [[nodiscard]] bool may_be_early(const Outline::Node& node) const {
    return node.is_collective && std::ranges::all_of(outline_.inputs_of(node), [&](ValueId input) {
             return outline_.value(input).origin != Origin::Node;
           });
  }

  void find_runs() {
    std::size_t number = 0;
    const Outline::Node* before = nullptr;
    for (const Outline::Node& node : outline_.nodes) {
      if (!may_be_early(node)) {
        const bool continues = before != nullptr && before->phase == node.phase &&
                               before->block == node.block && !is_message(node);
        number += continues ? 0 : 1;
        before = &node;
      }
      run_.push_back(number);
    }
  }

  [[nodiscard]] std::size_t group_of(std::size_t n) const {
    if (!joinable_[n]) {
      return n;
    }
    const std::optional<std::size_t> readers = readers_[outline_.outputs_of(outline_.nodes[n])[0]];
    const bool joins = readers && *readers != kReadFromOutside && joinable_[*readers] &&
                       run_[n] == run_[*readers] &&
                       result_type(outline_.nodes[n]) == result_type(outline_.nodes[*readers]);
    return joins ? *readers : n;
  }

  void note(ValueId value, std::size_t group) {
    std::optional<std::size_t>& readers = readers_[value];
    readers = !readers || *readers == group ? group : kReadFromOutside;
  }

  const Outline& outline_;
  std::vector<bool> joinable_;      ///< by node
  std::vector<std::size_t> run_;    ///< by node, the number of its run
  std::vector<std::size_t> group_;  ///< by node
  /// By value: the group that contains all of its readers.
  IndexedVector<ValueId, std::optional<std::size_t>> readers_;
};

}  // namespace

std::vector<std::size_t> fusion_groups(const Outline& outline) {
  return Grouping(outline).run();
}

std::vector<std::vector<std::size_t>> members_of(const std::vector<std::size_t>& groups) {
  std::vector<std::vector<std::size_t>> members(groups.size());
  for (std::size_t n = 0; n < groups.size(); ++n) {
    members[groups[n]].push_back(n);
  }
  return members;
}

std::vector<ValueId> fused_inputs(const Outline& outline, const std::vector<std::size_t>& nodes) {
  std::vector<ValueId> known;  // made inside, or an input already
  known.reserve(nodes.size());
  for (const std::size_t n : nodes) {
    known.push_back(outline.outputs_of(outline.nodes[n])[0]);
  }
  const std::int32_t type = outline.value(known.back()).type;
  std::vector<ValueId> whole;
  std::vector<ValueId> others;
  for (const std::size_t n : nodes) {
    for (const ValueId input : outline.inputs_of(outline.nodes[n])) {
      if (std::ranges::find(known, input) == known.end()) {
        known.push_back(input);
        (outline.value(input).type == type ? whole : others).push_back(input);
      }
    }
  }
  whole.insert(whole.end(), others.begin(), others.end());
  return whole;
}

Outline fuse_elementwise(const Outline& outline) {
  const Op& fused = op_named("fused");
  Outline result;
  result.values = outline.values;
  result.outputs = outline.outputs;
  result.updates = outline.updates;
  result.nodes.reserve(outline.nodes.size());
  result.operands.reserve(outline.operands.size());
  for (const std::vector<std::size_t>& nodes : members_of(fusion_groups(outline))) {
    if (nodes.empty()) {
      continue;
    }
    Outline::Node last = outline.nodes[nodes.back()];
    if (nodes.size() == 1) {
      result.add_node(last, outline.inputs_of(last), outline.outputs_of(last));
      continue;
    }
    const ValueId made = outline.outputs_of(last)[0];
    last.op = &fused;
    last.is_sum =
        std::ranges::all_of(nodes, [&](std::size_t n) { return outline.nodes[n].is_sum; });
    result.add_node(last, fused_inputs(outline, nodes), std::span(&made, 1));
  }
  return result;
}

}  // namespace trireme
