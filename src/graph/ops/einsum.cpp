// einsum: the product of two tensors, summed over the indices missing from the result. Every matrix product of a model
// is one: a linear layer "btk,kn->btn", the gradient of its weight "btk,btn->kn", projections to heads "btc,chd->bthd",
// batched experts "egpc,ecf->egpf".
//
// The equation defines the op's factors. The gradient of an operand is the einsum of the result's gradient with the
// other operand, with the letters swapped.
//
//   FLOPs = 2 x the product of all letters' sizes
#include "graph/einsum.h"

#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme {

EinsumLetters parse_equation(const Signature& s) {
  const std::string& equation = s.text("equation");
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  s.require(comma != std::string::npos && arrow != std::string::npos && comma < arrow,
            fmt::format("invalid equation '{}'; write it as ik,kj->ij", equation));
  EinsumLetters letters{equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
                        equation.substr(arrow + 2)};
  for (const std::string* operand : {&letters.a, &letters.b, &letters.result}) {
    const std::set<char> distinct(operand->begin(), operand->end());
    s.require(distinct.size() == operand->size(),
              fmt::format("a letter occurs twice in '{}'", *operand));
    for (const char letter : *operand) {
      s.require(letter >= 'a' && letter <= 'z', fmt::format("'{}' is not a letter", letter));
    }
  }
  return letters;
}

namespace ops::einsum {
namespace {

std::map<char, std::int64_t> sizes_of(const Signature& s, const EinsumLetters& letters) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::string& operand = k == 0 ? letters.a : letters.b;
    s.require(
        static_cast<int>(operand.size()) == s.shape(k).rank(),
        fmt::format("'{}' names {} dimensions of {}", operand, operand.size(), s.op->inputs[k]));
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const std::int64_t size = s.shape(k).dim(static_cast<int>(d));
      const auto [it, is_new] = sizes.emplace(operand[d], size);
      s.require(is_new || it->second == size,
                fmt::format("'{}' is {} in one and {} in the other", operand[d], it->second, size));
    }
  }
  return sizes;
}

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_dtype(s, 0, 1);
  const EinsumLetters letters = parse_equation(s);
  const std::map<char, std::int64_t> sizes = sizes_of(s, letters);
  std::vector<std::int64_t> dims;
  for (const char letter : letters.result) {
    s.require(sizes.contains(letter), fmt::format("'{}' occurs only in the result", letter));
    dims.push_back(sizes.at(letter));
  }
  for (const auto& [letter, size] : sizes) {
    const int places = static_cast<int>(has(letters.a, letter)) +
                       static_cast<int>(has(letters.b, letter)) +
                       static_cast<int>(has(letters.result, letter));
    s.require(places >= 2, fmt::format("'{}' occurs in only one operand; sum it first", letter));
  }
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

Factors factors(const Signature& s) {
  const EinsumLetters letters = parse_equation(s);
  return rules::factors_by_letters(
      s, {.inputs = {letters.a, letters.b}, .outputs = {letters.result}, .unshardable = {}});
}

Work work(const Signature& s) {
  double multiply_adds = 1;
  for (const auto& [letter, size] : sizes_of(s, parse_equation(s))) {
    multiply_adds *= static_cast<double>(size);
  }
  return {.products = 2 * multiply_adds, .bytes = rules::bytes_of_operands(s)};
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const Signature s = signature_of(q.builder.graph(), q.node);
  const EinsumLetters l = parse_equation(s);
  std::vector<ValueId> gradients(2);
  if (q.wanted[0]) {
    gradients[0] = q.builder.add1("einsum", {q.outputs[0], q.node.inputs[1]},
                                  {{"equation", fmt::format("{},{}->{}", l.result, l.b, l.a)}});
  }
  if (q.wanted[1]) {
    gradients[1] = q.builder.add1("einsum", {q.node.inputs[0], q.outputs[0]},
                                  {{"equation", fmt::format("{},{}->{}", l.a, l.result, l.b)}});
  }
  return gradients;
}

/// Iterates over all letters like an odometer, with each operand's offset.
void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const EinsumLetters letters = parse_equation(s);
  struct Wheel {
    std::int64_t size;
    std::array<std::int64_t, 3> steps;
  };
  std::vector<Wheel> wheels;
  const std::array<const std::string*, 3> operands{&letters.a, &letters.b, &letters.result};
  const std::array<std::vector<std::int64_t>, 3> strides{
      in[0].shape.strides(), in[1].shape.strides(), out[0].shape.strides()};
  std::int64_t total = 1;
  for (const auto& [letter, size] : sizes_of(s, letters)) {
    Wheel wheel{size, {}};
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t at = operands[k]->find(letter);
      wheel.steps[k] = at == std::string::npos ? 0 : strides[k][at];
    }
    wheels.push_back(wheel);
    total *= size;
  }
  for (std::int64_t i = 0; i < total; ++i) {
    std::array<std::int64_t, 3> offset{};
    std::int64_t rest = i;
    for (const Wheel& wheel : wheels) {
      for (std::size_t k = 0; k < 3; ++k) {
        offset[k] += rest % wheel.size * wheel.steps[k];
      }
      rest /= wheel.size;
    }
    out[0].data[offset[2]] += in[0].data[offset[0]] * in[1].data[offset[1]];
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "einsum",
           .summary = "product of two tensors, summed over letters that the result lacks",
           .inputs = {"a", "b"},
           .outputs = {"result"},
           .attributes = {{"equation", std::string(), false}},
           .infer = infer,
           .factors = factors,
           .linear = Linear::Each,
           .work = work,
           .gradient = gradient,
           .reference = reference}};
}

}  // namespace ops::einsum
}  // namespace trireme
