#include "program/categories.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/indexed_vector.h"
#include "trireme/op.h"

namespace trireme {
namespace {

/// Reduces over ranks.
bool reduces(const Op& op) {
  return op.name == "all_reduce" || op.name == "reduce_scatter";
}

/// Only moves the elements of its inputs.
bool moves(const Op& op) {
  static constexpr std::array<std::string_view, 5> kNames{"concat", "copy", "pad", "permute",
                                                          "slice"};
  return op.is_view || std::ranges::find(kNames, op.name) != kNames.end();
}

/// Packs. Other ops that move elements also occur in models, which would then read what ranks communicate.
bool packs(const Op& op) {
  return op.name == "concat" || op.name == "copy";
}

class Categories {
 public:
  explicit Categories(const Outline& outline)
      : outline_(outline),
        phase_(outline.values.size(), Phase::Forward),
        gradient_(outline.values.size(), false),
        only_sent_(outline.values.size(), false) {}

  std::vector<Category> run() {
    find_phases();
    find_gradients();
    find_terms();
    find_what_is_only_sent();
    for (const Outline::Value& value : outline_.values) {
      category_.push_back(category_of_leaf(value.origin));
    }
    for (const Outline::Node& node : outline_.nodes) {
      const std::span<const ValueId> outputs = outline_.outputs_of(node);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        category_[outputs[k]] = category_of(node, k);
      }
    }
    return std::move(category_).items();
  }

 private:
  static Category category_of_leaf(Origin origin) {
    return origin == Origin::Input       ? Category::Input
           : origin == Origin::Parameter ? Category::Parameter
           : origin == Origin::State     ? Category::Optimizer
                                         : Category::Activation;
  }

  [[nodiscard]] Category category_of(const Outline::Node& node, std::size_t output) const {
    const ValueId made = outline_.outputs_of(node)[output];
    if (node.op->is_view) {
      return category_[outline_.inputs_of(node)[0]];
    }
    if (node.op->communicates) {
      const bool sum = reduces(*node.op) && output == 0;
      return sum ? category_of_sum(outline_.inputs_of(node)[0]) : Category::Communication;
    }
    if (packs(*node.op) && only_sent_[made]) {
      return Category::Communication;
    }
    return gradient_[made] ? Category::Gradient : Category::Activation;
  }
  [[nodiscard]] Category category_of_sum(ValueId term) const {
    return outline_.value(term).origin == Origin::Node ? category_[term] : Category::Communication;
  }

  void find_phases() {
    for (const Outline::Node& node : outline_.nodes) {
      for (const ValueId output : outline_.outputs_of(node)) {
        phase_[output] = node.phase;
      }
    }
  }
  [[nodiscard]] bool is_of_backward(ValueId id) const { return phase_[id] == Phase::Backward; }

  /// Marks the values that the update reads from the backward, and those it moves and reduces over ranks before use.
  void find_gradients() {
    for (const Outline::Node& node : outline_.nodes) {
      if (node.phase != Phase::Update) {
        continue;
      }
      bool any = false;
      for (const ValueId input : outline_.inputs_of(node)) {
        gradient_[input] = gradient_[input] || is_of_backward(input);
        any = any || gradient_[input];
      }
      if (any && (moves(*node.op) || reduces(*node.op))) {
        gradient_[outline_.outputs_of(node)[0]] = true;
      }
    }
  }

  /// The terms of gradients: over ranks, over micro-batches, over uses of a parameter.
  void find_terms() {
    for (std::size_t i = outline_.nodes.size(); i-- > 0;) {
      const Outline::Node& node = outline_.nodes[i];
      if (node.outputs == 0 || !gradient_[outline_.outputs_of(node)[0]] ||
          !(moves(*node.op) || reduces(*node.op) || node.is_sum)) {
        continue;
      }
      for (const ValueId input : outline_.inputs_of(node)) {
        gradient_[input] = gradient_[input] || is_of_backward(input);
      }
    }
  }

  /// All its readers send it, or pack it for sending.
  void find_what_is_only_sent() {
    IndexedVector<ValueId, bool> read(outline_.values.size(), false);
    IndexedVector<ValueId, bool> otherwise(outline_.values.size(), false);
    for (const ValueId output : outline_.outputs) {
      otherwise[output] = true;
    }
    for (std::size_t i = outline_.nodes.size(); i-- > 0;) {
      const Outline::Node& node = outline_.nodes[i];
      for (const ValueId output : outline_.outputs_of(node)) {
        only_sent_[output] = read[output] && !otherwise[output];
      }
      const bool sends = node.op->communicates || ((packs(*node.op) || node.op->is_view) &&
                                                   only_sent_[outline_.outputs_of(node)[0]]);
      for (const ValueId input : outline_.inputs_of(node)) {
        read[input] = true;
        otherwise[input] = otherwise[input] || !sends;
      }
    }
  }

  const Outline& outline_;
  IndexedVector<ValueId, Phase> phase_;  ///< of its producer
  IndexedVector<ValueId, bool> gradient_;
  IndexedVector<ValueId, bool> only_sent_;
  IndexedVector<ValueId, Category> category_;
};

}  // namespace

std::vector<Category> categories_of(const Outline& outline) {
  return Categories(outline).run();
}

}  // namespace trireme
