// Ops that move elements without changing them: reshape, permute, slice, pad, concat.
//
//   reshape: the same elements in the same order under another shape
//   permute: y's dimension d is x's dimension order[d]
//   slice:   y = x[begin .. end), by dimension; an end past the dimension's size is clamped
//   pad:     x between zeros, before and after, by dimension; the gradient of slice
//   concat:  the parts concatenated along the axis
//
// The factors of a reshape are found by repeatedly taking, from the outermost dimension inwards, the smaller of the two
// remaining sizes if it divides the other: [B,T,C] -> [B,T,H,D] makes C run over H and D, and [2,6] -> [4,3] has the
// factors 2, 2, 3. If neither divides the other, nothing can be sharded until the products match again: [5,2,3] ->
// [5,3,2] has the factor 5 and separate unsharded dimensions.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::shapes {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The offset, with these strides, of the element with this index in `shape`.
std::int64_t offset_of(const Shape& shape, const Numbers& strides, std::size_t element) {
  auto rest = static_cast<std::int64_t>(element);
  std::int64_t offset = 0;
  for (std::size_t d = shape.dims().size(); d-- > 0;) {
    offset += rest % shape.dims()[d] * strides[d];
    rest /= shape.dims()[d];
  }
  return offset;
}

/// The index in `whole` of the element with this index in `part`, which begins at `begin`.
std::int64_t place_in(const Shape& whole, const Numbers& begin, const Shape& part,
                      std::size_t element) {
  const Numbers strides = whole.strides();
  const std::int64_t first =
      std::inner_product(begin.begin(), begin.end(), strides.begin(), std::int64_t{0});
  return first + offset_of(part, strides, element);
}

/// A number for each dimension of x.
const Numbers& by_dimension(const Signature& s, std::string_view name) {
  const Numbers& numbers = s.integers(name);
  s.require(static_cast<int>(numbers.size()) == s.shape(0).rank(),
            fmt::format("{} needs a number for each dimension of x", name));
  return numbers;
}

// reshape

std::vector<TensorType> infer_reshape(const Signature& s) {
  Shape shape(s.integers("shape"));
  s.require(shape.element_count() == s.shape(0).element_count(),
            fmt::format("{} has {} elements, x has {}", to_text(shape), shape.element_count(),
                        s.shape(0).element_count()));
  return {{s.inputs[0].dtype, std::move(shape)}};
}

/// One of the two shapes of a reshape, traversed from the outermost dimension inwards.
class Side {
 public:
  Side(const Shape& shape, std::vector<Factor>& factors)
      : dims_(shape.dims()), factors_(factors), runs_(dims_.size()) {}

  /// The rest of the dimension, after advancing to the next one if nothing is left; 1: no more.
  std::int64_t rest() {
    while (rest_ == 1 && next_ < dims_.size()) {
      rest_ = dims_[next_++];
    }
    return rest_;
  }
  /// The innermost factor so far is the next part of this dimension.
  void take_factor() {
    runs_[next_ - 1].push_back(static_cast<std::int32_t>(factors_.size()) - 1);
    rest_ /= factors_.back().size;
  }
  /// Keeps the rest of the dimension unsharded. Returns its size.
  std::int64_t take_whole() {
    const std::int64_t size = rest();
    factors_.push_back({size, Factor::Split::Never});
    runs_[next_ - 1].push_back(static_cast<std::int32_t>(factors_.size()) - 1);
    rest_ = 1;
    return size;
  }
  [[nodiscard]] bool at_end() { return rest() == 1; }
  [[nodiscard]] Factors::Dims dims() && { return std::move(runs_); }

 private:
  Numbers dims_;
  std::vector<Factor>& factors_;  // owned by the function that creates the sides
  Factors::Dims runs_;
  std::size_t next_ = 0;
  std::int64_t rest_ = 1;
};

/// Skips whole dimensions until both sides have the same product again.
void skip_unmatched(Side& a, Side& b) {
  std::int64_t of_a = a.take_whole();
  std::int64_t of_b = b.take_whole();
  while (of_a != of_b) {
    if (of_a < of_b) {
      of_a *= a.take_whole();
    } else {
      of_b *= b.take_whole();
    }
  }
}

void match(Side& a, Side& b, std::vector<Factor>& factors) {
  while (!a.at_end()) {
    const auto [smaller, larger] = std::minmax({a.rest(), b.rest()});
    if (larger % smaller != 0) {
      skip_unmatched(a, b);
      continue;
    }
    factors.push_back({smaller});
    a.take_factor();
    b.take_factor();
  }
}

Factors reshape_factors(const Signature& s) {
  Factors result;
  Side from(s.shape(0), result.factors);
  Side to(Shape(s.integers("shape")), result.factors);
  if (s.shape(0).element_count() > 0) {
    match(from, to, result.factors);
  }
  for (Side* side : {&from, &to}) {  // without elements there is nothing to match
    while (!side->at_end()) {
      side->take_whole();
    }
  }
  result.inputs.push_back(std::move(from).dims());
  result.outputs.push_back(std::move(to).dims());
  return result;
}

/// A view.
Work reshape_work(const Signature&) {
  return {};
}

void reference_reshape(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  out[0].data = in[0].data;
}

std::vector<ValueId> reshape_gradient(GradientQuery& q) {
  return {q.builder.add1("reshape", {q.outputs[0]},
                         {{"shape", q.builder.shape(q.node.inputs[0]).dims()}})};
}

// permute

const Numbers& order_of(const Signature& s) {
  const Numbers& order = by_dimension(s, "order");
  Numbers sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t d = 0; d < sorted.size(); ++d) {
    s.require(sorted[d] == static_cast<std::int64_t>(d),
              "order must name each dimension of x once, from 0");
  }
  return order;
}

Numbers permuted(const Numbers& numbers, const Numbers& order) {
  Numbers result;
  for (const std::int64_t d : order) {
    result.push_back(numbers[d]);
  }
  return result;
}

std::vector<TensorType> infer_permute(const Signature& s) {
  return {{s.inputs[0].dtype, Shape(permuted(s.shape(0).dims(), order_of(s)))}};
}

Factors permute_factors(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(0).rank());
  std::string y;
  for (const std::int64_t d : order_of(s)) {
    y.push_back(x[d]);
  }
  return rules::factors_by_letters(s, {.inputs = {x}, .outputs = {y}, .unshardable = {}});
}

void reference_permute(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Numbers strides = permuted(in[0].shape.strides(), order_of(s));
  for (std::size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[offset_of(out[0].shape, strides, i)];
  }
}

std::vector<ValueId> permute_gradient(GradientQuery& q) {
  const Signature s = signature_of(q.builder.graph(), q.node);
  const Numbers& order = order_of(s);
  Numbers inverse(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) {
    inverse[order[d]] = static_cast<std::int64_t>(d);
  }
  return {q.builder.add1("permute", {q.outputs[0]}, {{"order", inverse}})};
}

// slice and pad

/// The ends, clamped to x, so that a slice that takes a whole dimension is the same node for a shard of it.
Numbers ends_of(const Signature& s) {
  Numbers ends = by_dimension(s, "end");
  for (std::size_t d = 0; d < ends.size(); ++d) {
    ends[d] = std::min(ends[d], s.shape(0).dims()[d]);
  }
  return ends;
}

std::vector<TensorType> infer_slice(const Signature& s) {
  const Numbers& begin = by_dimension(s, "begin");
  const Numbers ends = ends_of(s);
  Numbers dims;
  for (std::size_t d = 0; d < ends.size(); ++d) {
    s.require(begin[d] >= 0 && begin[d] <= ends[d],
              fmt::format("{}..{} is out of range in dimension {}", begin[d], ends[d], d));
    dims.push_back(ends[d] - begin[d]);
  }
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<TensorType> infer_pad(const Signature& s) {
  const Numbers& before = by_dimension(s, "before");
  const Numbers& after = by_dimension(s, "after");
  Numbers dims = s.shape(0).dims();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    s.require(before[d] >= 0 && after[d] >= 0, "it adds and never subtracts");
    dims[d] += before[d] + after[d];
  }
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

/// Dimensions that keep their size are free; the others are whole, separately on each side.
Factors resize_factors(const Signature& s) {
  const Shape y = s.op->infer(s).front().shape;
  rules::Letters letters{{rules::letters_for(y.rank())}, {rules::letters_for(y.rank())}, {}};
  for (int d = 0; d < y.rank(); ++d) {
    if (y.dim(d) != s.shape(0).dim(d)) {
      const auto other = static_cast<char>('A' + d);
      letters.unshardable += {letters.inputs[0][d], other};
      letters.outputs[0][d] = other;
    }
  }
  return rules::factors_by_letters(s, letters);
}

/// Reads no more than it writes.
Work slice_work(const Signature& s) {
  return {.bytes = 2 * static_cast<double>(size_of(infer_slice(s).front()).count)};
}

void reference_slice(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[place_in(in[0].shape, s.integers("begin"), out[0].shape, i)];
  }
}

void reference_pad(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[place_in(out[0].shape, s.integers("before"), in[0].shape, i)] = in[0].data[i];
  }
}

std::vector<ValueId> slice_gradient(GradientQuery& q) {
  const Signature s = signature_of(q.builder.graph(), q.node);
  Numbers after = s.shape(0).dims();
  const Numbers ends = ends_of(s);
  std::ranges::transform(after, ends, after.begin(), std::minus<>{});
  return {
      q.builder.add1("pad", {q.outputs[0]}, {{"before", s.integers("begin")}, {"after", after}})};
}

std::vector<ValueId> pad_gradient(GradientQuery& q) {
  const Signature s = signature_of(q.builder.graph(), q.node);
  const Numbers& before = s.integers("before");
  Numbers end = s.shape(0).dims();
  std::ranges::transform(end, before, end.begin(), std::plus<>{});
  return {q.builder.add1("slice", {q.outputs[0]}, {{"begin", before}, {"end", end}})};
}

// concat

int concat_axis(const Signature& s) {
  return rules::axis_of(s, s.integer("axis"), s.shape(0).rank());
}

std::vector<TensorType> infer_concat(const Signature& s) {
  const int axis = concat_axis(s);
  Numbers dims = s.shape(0).dims();
  for (std::size_t k = 1; k < s.inputs.size(); ++k) {
    Numbers part = s.shape(k).dims();
    s.require(s.inputs[k].dtype == s.inputs[0].dtype && part.size() == dims.size(),
              "the parts must have one element type and equally many dimensions");
    dims[axis] += part[axis];
    part[axis] = dims[axis];
    s.require(part == dims, "the parts must match except along the axis");
  }
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

/// The axis is whole in each part and in the result, separately.
Factors concat_factors(const Signature& s) {
  const int axis = concat_axis(s);
  Factors result;
  Factors::Dims shared;
  for (const std::int64_t size : s.shape(0).dims()) {
    shared.push_back({static_cast<std::int32_t>(result.factors.size())});
    result.factors.push_back({size});
  }
  result.factors[axis].split = Factor::Split::Never;
  const auto with_own_axis = [&](const Shape& shape) {
    Factors::Dims dims = shared;
    dims[axis] = {static_cast<std::int32_t>(result.factors.size())};
    result.factors.push_back({shape.dims()[axis], Factor::Split::Never});
    return dims;
  };
  result.inputs.push_back(shared);
  for (std::size_t k = 1; k < s.inputs.size(); ++k) {
    result.inputs.push_back(with_own_axis(s.shape(k)));
  }
  result.outputs.push_back(with_own_axis(infer_concat(s).front().shape));
  return result;
}

void reference_concat(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const int axis = concat_axis(s);
  Numbers begin(out[0].shape.dims().size(), 0);
  for (const Dense& part : in) {
    for (std::size_t i = 0; i < part.data.size(); ++i) {
      out[0].data[place_in(out[0].shape, begin, part.shape, i)] = part.data[i];
    }
    begin[axis] += part.shape.dims()[axis];
  }
}

std::vector<ValueId> concat_gradient(GradientQuery& q) {
  const Signature s = signature_of(q.builder.graph(), q.node);
  const int axis = concat_axis(s);
  Numbers begin(s.shape(0).dims().size(), 0);
  std::vector<ValueId> gradients(s.inputs.size());
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    Numbers end = s.shape(k).dims();
    end[axis] += begin[axis];
    if (q.wanted[k]) {
      gradients[k] = q.builder.add1("slice", {q.outputs[0]}, {{"begin", begin}, {"end", end}});
    }
    begin[axis] = end[axis];
  }
  return gradients;
}

AttributeRow numbers(std::string_view name) {
  return {name, Numbers(), false};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "reshape",
           .summary = "the same elements in the same order under another shape",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {numbers("shape")},
           .infer = infer_reshape,
           .factors = reshape_factors,
           .linear = Linear::Joint,
           .part = rules::part_of_shape,
           .work = reshape_work,
           .gradient = reshape_gradient,
           .is_view = true,
           .reference = reference_reshape},
          {.name = "permute",
           .summary = "y's dimension d is x's dimension order[d]",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {numbers("order")},
           .infer = infer_permute,
           .factors = permute_factors,
           .linear = Linear::Joint,
           .work = rules::per_element<0>,
           .gradient = permute_gradient,
           .reference = reference_permute},
          {.name = "slice",
           .summary = "y = x[begin .. end), by dimension",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {numbers("begin"), numbers("end")},
           .infer = infer_slice,
           .factors = resize_factors,
           .linear = Linear::Joint,
           .work = slice_work,
           .gradient = slice_gradient,
           .reference = reference_slice},
          {.name = "pad",
           .summary = "x between zeros, before and after, by dimension",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {numbers("before"), numbers("after")},
           .infer = infer_pad,
           .factors = resize_factors,
           .linear = Linear::Joint,
           .work = rules::per_element<0>,
           .gradient = pad_gradient,
           .reference = reference_pad},
          {.name = "concat",
           .summary = "the parts side by side along the axis",
           .inputs = {"parts..."},
           .outputs = {"y"},
           .attributes = {{"axis", std::int64_t{0}, false}},
           .infer = infer_concat,
           .factors = concat_factors,
           .linear = Linear::Joint,
           .work = rules::per_element<0>,
           .gradient = concat_gradient,
           .reference = reference_concat}};
}

}  // namespace trireme::ops::shapes
