#include "program/categories.h"

#include <algorithm>
#include <array>

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
  explicit Categories(Program& program)
      : program_(program),
        maker_(program.buffers.size(), nullptr),
        gradient_(program.buffers.size(), false),
        only_sent_(program.buffers.size(), false) {}

  void run() {
    find_makers();
    find_gradients();
    find_terms();
    find_what_is_only_sent();
    for (Buffer& buffer : program_.buffers) {
      buffer.category = category_of_leaf(buffer.origin);
    }
    for (const Instruction& instruction : program_.instructions) {
      for (std::size_t k = 0; k < instruction.outputs.size(); ++k) {
        buffer(instruction.outputs[k]).category = category_of(instruction, k);
      }
    }
  }

 private:
  static std::size_t at(BufferId id) { return static_cast<std::size_t>(id.index); }
  [[nodiscard]] Buffer& buffer(BufferId id) { return program_.buffers[at(id)]; }

  static Category category_of_leaf(Origin origin) {
    return origin == Origin::Input       ? Category::Input
           : origin == Origin::Parameter ? Category::Parameter
           : origin == Origin::State     ? Category::Optimizer
                                         : Category::Activation;
  }

  [[nodiscard]] Category category_of(const Instruction& instruction, std::size_t output) {
    const BufferId made = instruction.outputs[output];
    if (instruction.op->is_view) {
      return buffer(instruction.inputs[0]).category;
    }
    if (instruction.op->communicates) {
      const bool sum = reduces(*instruction.op) && output == 0;
      return sum ? category_of_sum(buffer(instruction.inputs[0])) : Category::Communication;
    }
    if (packs(*instruction.op) && only_sent_[at(made)]) {
      return Category::Communication;
    }
    return gradient_[at(made)] ? Category::Gradient : Category::Activation;
  }
  static Category category_of_sum(const Buffer& term) {
    return term.origin == Origin::Node ? term.category : Category::Communication;
  }

  void find_makers() {
    for (const Instruction& instruction : program_.instructions) {
      for (const BufferId output : instruction.outputs) {
        maker_[at(output)] = &instruction;
      }
    }
  }
  [[nodiscard]] bool is_of_backward(BufferId id) const {
    return maker_[at(id)] != nullptr && maker_[at(id)]->phase == Phase::Backward;
  }

  /// What the update reads of the backward, and what it moves and reduces over ranks before use.
  void find_gradients() {
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.phase != Phase::Update) {
        continue;
      }
      bool any = false;
      for (const BufferId input : instruction.inputs) {
        gradient_[at(input)] = gradient_[at(input)] || is_of_backward(input);
        any = any || gradient_[at(input)];
      }
      if (any && (moves(*instruction.op) || reduces(*instruction.op))) {
        gradient_[at(instruction.outputs[0])] = true;
      }
    }
  }

  /// The terms of gradients: over ranks, over micro-batches, over uses of a parameter.
  void find_terms() {
    for (std::size_t i = program_.instructions.size(); i-- > 0;) {
      const Instruction& instruction = program_.instructions[i];
      const bool passes_on =
          moves(*instruction.op) || reduces(*instruction.op) || instruction.op->name == "add";
      if (!passes_on || !gradient_[at(instruction.outputs[0])]) {
        continue;
      }
      for (const BufferId input : instruction.inputs) {
        gradient_[at(input)] = gradient_[at(input)] || is_of_backward(input);
      }
    }
  }

  /// All its readers send it, or pack it for sending.
  void find_what_is_only_sent() {
    std::vector<bool> read(program_.buffers.size(), false);
    std::vector<bool> otherwise(program_.buffers.size(), false);
    for (const NamedBuffer& output : program_.outputs) {
      otherwise[at(output.buffer)] = true;
    }
    for (std::size_t i = program_.instructions.size(); i-- > 0;) {
      const Instruction& instruction = program_.instructions[i];
      for (const BufferId output : instruction.outputs) {
        only_sent_[at(output)] = read[at(output)] && !otherwise[at(output)];
      }
      const bool sends =
          instruction.op->communicates || ((packs(*instruction.op) || instruction.op->is_view) &&
                                           only_sent_[at(instruction.outputs[0])]);
      for (const BufferId input : instruction.inputs) {
        read[at(input)] = true;
        otherwise[at(input)] = otherwise[at(input)] || !sends;
      }
    }
  }

  Program& program_;
  std::vector<const Instruction*> maker_;  ///< by buffer; none: exists before the step
  std::vector<bool> gradient_;             ///< by buffer
  std::vector<bool> only_sent_;            ///< likewise
};

}  // namespace

void categorize(Program& program) {
  Categories(program).run();
}

}  // namespace trireme
