// fused: a small program of element-wise ops in one pass: operands are read once and the result is written once.
// graph/fused.h defines the form of programs. Created by a pass after the gradients, so it has none.
#include "graph/fused.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme {
namespace {

std::string operand_text(const FusedOperand& operand) {
  return fmt::format("{}{}", operand.kind == FusedOperand::Kind::Input ? '%' : 't', operand.number);
}

std::string step_text(const FusedStep& step) {
  std::vector<std::string> operands;
  std::ranges::transform(step.operands, std::back_inserter(operands), operand_text);
  std::string text = fmt::format("{}({})", step.op->name, fmt::join(operands, ","));
  for (const auto& [name, value] : step.attributes) {
    text += fmt::format(" {}={}", name, std::get<double>(value));
  }
  return text;
}

/// Parses one step; `before` is the number of steps so far.
class StepReader {
 public:
  StepReader(const Signature& s, std::string_view text, std::size_t before)
      : s_(s), text_(trim(text)), before_(before) {}

  [[nodiscard]] FusedStep read() const {
    const std::size_t open = text_.find('(');
    const std::size_t close = text_.find(')');
    require(open != std::string_view::npos && close != std::string_view::npos && open < close);
    FusedStep step{.op = find_op(text_.substr(0, open))};
    require(step.op != nullptr && can_be_fused(*step.op));
    for (const std::string_view word : split(text_.substr(open + 1, close - open - 1), ',')) {
      step.operands.push_back(operand(trim(word)));
    }
    require(step.operands.size() == step.op->inputs.size());
    for (const std::string_view word : split_words(text_.substr(close + 1))) {
      step.attributes.insert(attribute(word));
    }
    require(step.attributes.size() == step.op->attributes.size());
    for (const AttributeRow& row : step.op->attributes) {
      require(step.attributes.contains(row.name));
    }
    return step;
  }

 private:
  void require(bool holds) const {
    s_.require(holds, fmt::format("invalid step '{}'; write it as add(%0,t0)", text_));
  }

  [[nodiscard]] FusedOperand operand(std::string_view word) const {
    require(!word.empty() && (word[0] == '%' || word[0] == 't'));
    const auto kind = word[0] == '%' ? FusedOperand::Kind::Input : FusedOperand::Kind::Step;
    const auto number = parse_integer(word.substr(1));
    const std::size_t limit = kind == FusedOperand::Kind::Input ? s_.inputs.size() : before_;
    require(number && *number >= 0 && std::cmp_less(*number, limit));
    return {kind, static_cast<std::size_t>(*number)};
  }

  [[nodiscard]] std::pair<std::string, Attribute> attribute(std::string_view word) const {
    const std::size_t equals = word.find('=');
    require(equals != std::string_view::npos);
    const std::string_view number = word.substr(equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    require(error == std::errc() && end == number.data() + number.size());
    return {std::string(word.substr(0, equals)), value};
  }

  const Signature& s_;
  std::string_view text_;
  std::size_t before_;
};

}  // namespace

bool can_be_fused(const Op& op) {
  return op.factors == rules::elementwise_factors && op.outputs.size() == 1 &&
         !op.inputs.back().ends_with("...") &&
         std::ranges::all_of(op.attributes, [](const AttributeRow& row) {
           return std::holds_alternative<double>(row.example);
         });
}

std::string to_text(const FusedProgram& program) {
  std::vector<std::string> steps;
  std::ranges::transform(program, std::back_inserter(steps), step_text);
  return fmt::format("{}", fmt::join(steps, "; "));
}

FusedProgram parse_program(const Signature& s) {
  FusedProgram program;
  for (const std::string_view text : split(s.text("program"), ';')) {
    program.push_back(StepReader(s, text, program.size()).read());
  }
  return program;
}

namespace ops::fused {
namespace {

/// The step as a separate node.
Signature signature_of_step(const Signature& s, const FusedStep& step) {
  Signature own{.op = step.op, .inputs = {}, .attributes = &step.attributes};
  for (const FusedOperand& operand : step.operands) {
    own.inputs.push_back(
        s.inputs.at(operand.kind == FusedOperand::Kind::Input ? operand.number : std::size_t{0}));
  }
  return own;
}

std::vector<TensorType> infer(const Signature& s) {
  for (const FusedStep& step : parse_program(s)) {
    const std::vector<TensorType> result = step.op->infer(signature_of_step(s, step));
    s.require(result.at(0) == s.inputs[0], "every step must give the type of the first input");
  }
  return rules::like_first(s);
}

Work work(const Signature& s) {
  Work sum{.bytes = rules::bytes_of_operands(s)};
  for (const FusedStep& step : parse_program(s)) {
    sum.others += step.op->work(signature_of_step(s, step)).others;
  }
  return sum;
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  std::vector<Dense> results;
  for (const FusedStep& step : parse_program(s)) {
    std::vector<Dense> operands;
    for (const FusedOperand& operand : step.operands) {
      operands.push_back(operand.kind == FusedOperand::Kind::Input ? in[operand.number]
                                                                   : results[operand.number]);
    }
    Dense result(in[0].shape);
    step.op->reference(signature_of_step(s, step), operands, {&result, 1});
    results.push_back(std::move(result));
  }
  out[0] = std::move(results.back());
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "fused",
           .summary = "a program of element-wise ops, in one pass",
           .inputs = {"inputs..."},
           .outputs = {"y"},
           .attributes = {{"program", std::string(), false}},
           .infer = infer,
           .factors = rules::elementwise_factors,
           .work = work,
           .in_place = {{0, 0}},
           .reference = reference}};
}

}  // namespace ops::fused
}  // namespace trireme
