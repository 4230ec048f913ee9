// dropout: sets a share `rate` of the elements to 0 and scales the others to preserve the mean (Srivastava et al.,
// 2014).
//
//   y = keep x / (1 - rate),  keep[i] = [hash(seed, step, i) >= rate],  i the element's number
//
// and random_normal: a tensor of standard normal numbers from the same generator, graph/random.h.
//
// The mask is not stored: the backward recomputes it. A node that computes a shard of a tensor has attributes: `whole`
// is the full shape, `offset` is the start of the shard, and elements are numbered in the full tensor, so any sharding
// works. Both empty: the tensor is not sharded. With x[4,6] sharded by columns in two, the second shard has
// offset=[0,3] whole=[4,6].
#include <fmt/format.h>

#include "graph/ops/families.h"
#include "graph/random.h"
#include "trireme/op_rules.h"

namespace trireme::ops::dropout {
namespace {

void require_step(const Signature& s, std::size_t step) {
  s.require(s.inputs[step] == TensorType{DType::I64, {}}, "step must be i64[]");
}

/// Rejects a shard that is not inside its whole.
void require_part(const Signature& s, const Shape& part) {
  const std::vector<std::int64_t>& offset = s.integers("offset");
  const std::vector<std::int64_t>& whole = s.integers("whole");
  s.require(offset.size() == whole.size(), "offset and whole must have as many dimensions");
  if (whole.empty()) {
    return;
  }
  s.require(static_cast<int>(whole.size()) == part.rank(),
            fmt::format("whole has {} dimensions, the part {}", whole.size(), part.rank()));
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const std::int64_t size = part.dim(static_cast<int>(d));
    s.require(offset[d] >= 0 && size <= whole[d] && offset[d] <= whole[d] - size,
              fmt::format("{} from {} on are not in the whole's {} of dimension {}", size,
                          offset[d], whole[d], d));
  }
}

/// Calls f(element, its number in the whole tensor).
template <class F>
void for_each_element(const Signature& s, const Dense& part, F f) {
  const std::vector<std::int64_t>& whole = s.integers("whole");
  for (std::size_t i = 0; i < part.data.size(); ++i) {
    f(i, whole.empty() ? i
                       : random::index_in_whole(i, part.shape.dims(), s.integers("offset"), whole));
  }
}

random::Stream stream_of(const Signature& s, const Dense& step, random::Use use) {
  return {
      .seed = s.integer("seed"), .step = static_cast<std::int64_t>(step.data.at(0)), .use = use};
}

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  require_step(s, 1);
  require_part(s, s.shape(0));
  const double rate = s.number("rate");
  s.require(rate >= 0 && rate < 1, fmt::format("the rate {} is not in [0, 1)", rate));
  return rules::like_first(s);
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {q.builder.add1("dropout_backward", {q.outputs[0], q.node.inputs[1]}, q.node.attributes),
          {}};
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const random::Stream stream = stream_of(s, in[1], random::Use::Mask);
  const std::uint64_t threshold = random::drop_below(s.number("rate"));
  for_each_element(s, in[0], [&](std::size_t i, std::uint64_t index) {
    const bool kept = random::keeps(stream, index, threshold);
    out[0].data[i] = kept ? in[0].data[i] / (1 - s.number("rate")) : 0;
  });
}

// random_normal: step -> y

std::vector<TensorType> infer_normal(const Signature& s) {
  require_step(s, 0);
  const DType dtype = parse_dtype(s.text("dtype"));
  s.require(is_float(dtype), "dtype must be of floating point");
  Shape shape(s.integers("shape"));
  require_part(s, shape);
  return {{dtype, std::move(shape)}};
}

Factors factors_normal(const Signature& s) {
  const auto rank = static_cast<int>(s.integers("shape").size());
  return rules::factors_by_letters(s, {{""}, {rules::letters_for(rank)}, {}});
}

void reference_normal(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const random::Stream stream = stream_of(s, in[0], random::Use::Normal);
  for_each_element(s, out[0], [&](std::size_t i, std::uint64_t index) {
    out[0].data[i] = random::normal(stream, index);
  });
}

/// The offset of a shard of the first result, in the full tensor of which the node itself may compute a shard.
Attributes part_of(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  const Factors factors = whole.op->factors(whole);
  const Shape shape = whole.op->infer(whole).at(0).shape;
  std::vector<std::int64_t> offset = whole.integers("offset");
  if (offset.empty()) {
    offset.assign(shape.dims().size(), 0);
    attributes["whole"] = shape.dims();
  }
  for (std::size_t d = 0; d < offset.size(); ++d) {
    offset[d] += ranges[factors.outputs[0][d].at(0)].begin;
  }
  attributes["offset"] = offset;
  if (attributes.contains("shape")) {
    attributes["shape"] = rules::part_of_dims(factors.outputs[0], ranges);
  }
  return attributes;
}

const AttributeRow kSeed{"seed", std::int64_t{0}};
const AttributeRow kOffset{"offset", std::vector<std::int64_t>()};
const AttributeRow kWhole{"whole", std::vector<std::int64_t>()};

/// dropout and its backward apply the same mask, to x and to dy.
Op mask_row(std::string_view name, std::string_view x, std::string_view y) {
  return {.name = name,
          .summary = "a share `rate` of the elements 0, the others x / (1 - rate)",
          .inputs = {x, "step"},
          .outputs = {y},
          .attributes = {{"rate", 0.1}, kSeed, kOffset, kWhole},
          .infer = infer,
          .factors = rules::elementwise_factors,
          .linear = Linear::Each,
          .part = part_of,
          .work = rules::per_element<2>,
          .reference = reference};
}

}  // namespace

std::vector<Op> rows() {
  Op forward = mask_row("dropout", "x", "y");
  forward.gradient = gradient;
  return {forward,
          mask_row("dropout_backward", "dy", "dx"),
          {.name = "random_normal",
           .summary = "standard normal numbers, by seed, step and element",
           .inputs = {"step"},
           .outputs = {"y"},
           .attributes = {{"shape", std::vector<std::int64_t>(), false},
                          {"dtype", std::string("f32")},
                          kSeed,
                          kOffset,
                          kWhole},
           .infer = infer_normal,
           .factors = factors_normal,
           .part = part_of,
           .work = rules::per_element<8>,
           .reference = reference_normal}};
}

}  // namespace trireme::ops::dropout
