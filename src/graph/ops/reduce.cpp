// Sums, means and maxima over whole dimensions, and the broadcast that is their reverse.
#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::reduce {
namespace {

/// The axes as nonnegative numbers, sorted; rejects duplicates.
std::vector<int> axes_of(const Signature& s, int rank) {
  std::vector<int> axes;
  for (const std::int64_t axis : s.integers("axes")) {
    axes.push_back(rules::axis_of(s, axis, rank));
  }
  std::ranges::sort(axes);
  s.require(std::ranges::adjacent_find(axes) == axes.end(), "an axis is listed twice");
  return axes;
}

bool contains(const std::vector<int>& axes, int axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

/// The letters of all dimensions, and of those that are not reduced.
struct Letters {
  std::string all;
  std::string kept;
};
Letters letters_of(int rank, const std::vector<int>& axes) {
  Letters letters{.all = rules::letters_for(rank), .kept = ""};
  for (int d = 0; d < rank; ++d) {
    if (!contains(axes, d)) {
      letters.kept.push_back(letters.all[d]);
    }
  }
  return letters;
}

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  const std::vector<int> axes = axes_of(s, s.shape(0).rank());
  std::vector<std::int64_t> dims;
  for (int d = 0; d < s.shape(0).rank(); ++d) {
    if (!contains(axes, d)) {
      dims.push_back(s.shape(0).dim(d));
    }
  }
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

template <Factor::Split kSplit>
Factors factors(const Signature& s) {
  const int rank = s.shape(0).rank();
  const std::vector<int> axes = axes_of(s, rank);
  const auto [all, kept] = letters_of(rank, axes);
  Factors result =
      rules::factors_by_letters(s, {.inputs = {all}, .outputs = {kept}, .unshardable = {}});
  for (const int axis : axes) {
    result.factors[axis].split = kSplit;
  }
  return result;
}

Work work(const Signature& s) {
  return {.others = static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

/// The index in a tensor of `shape` without `axes` of the element with this index in `shape`.
std::size_t reduced_index(const Shape& shape, const std::vector<int>& axes, std::size_t element) {
  std::size_t index = 0;
  std::size_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const std::size_t size = shape.dim(d);
    if (!contains(axes, d)) {
      index += element % size * step;
      step *= size;
    }
    element /= size;
  }
  return index;
}

double add(double a, double b) {
  return a + b;
}
double larger(double a, double b) {
  return std::max(a, b);
}

template <double (*kCombine)(double, double)>
void reduce(const Signature& s, const Dense& in, Dense& out, double first) {
  std::ranges::fill(out.data, first);
  const std::vector<int> axes = axes_of(s, in.shape.rank());
  for (std::size_t i = 0; i < in.data.size(); ++i) {
    double& slot = out.data[reduced_index(in.shape, axes, i)];
    slot = kCombine(slot, in.data[i]);
  }
}

void reference_sum(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  reduce<add>(s, in[0], out[0], 0);
}

void reference_max(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  reduce<larger>(s, in[0], out[0], -std::numeric_limits<double>::infinity());
}

std::vector<ValueId> sum_gradient(GradientQuery& q) {
  return {q.builder.add1("broadcast", {q.outputs[0]},
                         {{"shape", q.builder.shape(q.node.inputs[0]).dims()},
                          {"axes", q.node.attributes.at("axes")}})};
}

// broadcast: the reverse of a sum. The axes are the result's axes that the input lacks.

std::vector<TensorType> infer_broadcast(const Signature& s) {
  Shape shape(s.integers("shape"));
  const std::vector<int> axes = axes_of(s, shape.rank());
  std::vector<std::int64_t> kept;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!contains(axes, d)) {
      kept.push_back(shape.dim(d));
    }
  }
  s.require(Shape(kept) == s.shape(0),
            fmt::format("without its axes {} is not the shape of x", to_text(shape)));
  return {{s.inputs[0].dtype, std::move(shape)}};
}

Factors broadcast_factors(const Signature& s) {
  const auto rank = static_cast<int>(s.integers("shape").size());
  const auto [all, kept] = letters_of(rank, axes_of(s, rank));
  return rules::factors_by_letters(s, {.inputs = {kept}, .outputs = {all}, .unshardable = {}});
}

Work broadcast_work(const Signature& s) {
  return {.bytes = rules::bytes_of_operands(s)};
}

void reference_broadcast(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::vector<int> axes = axes_of(s, out[0].shape.rank());
  for (std::size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[reduced_index(out[0].shape, axes, i)];
  }
}

std::vector<ValueId> broadcast_gradient(GradientQuery& q) {
  return {q.builder.add1("reduce_sum", {q.outputs[0]}, {{"axes", q.node.attributes.at("axes")}})};
}

const AttributeRow kAxes{"axes", std::vector<std::int64_t>(), false};

}  // namespace

std::vector<Op> rows() {
  return {{.name = "reduce_sum",
           .summary = "the sum over the axes, which go away",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {kAxes},
           .infer = infer,
           .factors = factors<Factor::Split::Free>,
           .linear = Linear::Joint,
           .work = work,
           .gradient = sum_gradient,
           .reference = reference_sum},
          {.name = "reduce_max",
           .summary = "the largest over the axes, which go away",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {kAxes},
           .infer = infer,
           .factors = factors<Factor::Split::Maximum>,
           .work = work,
           .reference = reference_max},
          {.name = "broadcast",
           .summary = "x repeated along new axes, up to the shape",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {{"shape", std::vector<std::int64_t>(), false}, kAxes},
           .infer = infer_broadcast,
           .factors = broadcast_factors,
           .linear = Linear::Joint,
           .part = rules::part_of_shape,
           .work = broadcast_work,
           .gradient = broadcast_gradient,
           .reference = reference_broadcast}};
}

}  // namespace trireme::ops::reduce
