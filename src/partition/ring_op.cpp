#include "partition/ring_op.h"

#include <algorithm>
#include <string>

#include "base/indexed_vector.h"
#include "trireme/op_rules.h"

namespace trireme::partition {
namespace {

bool appears_in(const Factors::Dims& dims, std::size_t factor) {
  return std::ranges::any_of(dims, [&](const std::vector<std::int32_t>& dim) {
    return std::ranges::find(dim, static_cast<std::int32_t>(factor)) != dim.end();
  });
}

/// The first other factor that the axis shards; the factor itself if there is none.
std::size_t rows_of(std::span<const Placement::Dim> sharding, std::size_t factor, int axis) {
  for (std::size_t f = 0; f < sharding.size(); ++f) {
    if (f != factor && std::ranges::find(sharding[f].axes, axis) != sharding[f].axes.end()) {
      return f;
    }
  }
  return factor;
}

}  // namespace

int find_ring(const Factors& factors, std::span<const Placement::Dim> sharding) {
  for (std::size_t f = 0; f < sharding.size(); ++f) {
    if (factors.factors[f].split == Factor::Split::InTurn && !sharding[f].axes.empty()) {
      return static_cast<int>(f);
    }
  }
  return -1;
}

std::vector<IndexRange> ranges_at(const Factors& factors, std::span<const Placement::Dim> sharding,
                                  const Axes& axes, std::span<const int> coordinates) {
  std::vector<IndexRange> ranges;
  ranges.reserve(factors.factors.size());
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    ranges.push_back(block_at(sharding[f], factors.factors[f].size, axes, coordinates));
  }
  return ranges;
}

Ring ring_at(const Signature& whole, std::span<const Placement::Dim> sharding, const Axes& axes,
             std::vector<int> coordinates, std::span<const std::vector<int>> axis_ranks) {
  const Factors factors = whole.op->factors(whole);
  const std::size_t factor = position_of(find_ring(factors, sharding));
  const int axis = sharding[factor].axes.front();
  Ring ring{.whole = whole,
            .factor = factor,
            .rows = rows_of(sharding, factor, axis),
            .ranges = {},
            .ranks = axis_ranks[axis],
            .index = position_of(coordinates[axis])};
  int& at = coordinates[axis];
  for (at = 0; at < axes[axis].size; ++at) {
    ring.ranges.push_back(ranges_at(factors, sharding, axes, coordinates));
  }
  return ring;
}

RingOp::RingOp(const Ring& ring)
    : ring_(ring),
      factors_(ring.whole.op->factors(ring.whole)),
      outputs_(ring.whole.op->infer(ring.whole)) {
  for (std::size_t k = 0; k < factors_.inputs.size(); ++k) {
    (appears_in(factors_.inputs[k], ring_.factor) ? operands_ : others_).push_back(k);
  }
  for (std::size_t k = 0; k < factors_.outputs.size(); ++k) {
    (appears_in(factors_.outputs[k], ring_.factor) ? carried_ : merged_).push_back(k);
  }
}

std::vector<IndexRange> RingOp::ranges_of(std::size_t place, std::size_t part) const {
  std::vector<IndexRange> ranges = ring_.ranges[place];
  ranges[ring_.factor] = ring_.ranges[part][ring_.factor];
  return ranges;
}

Attributes RingOp::attributes_of(std::span<const IndexRange> ranges) const {
  const Signature& whole = ring_.whole;
  return whole.op->part == nullptr ? *whole.attributes : whole.op->part(whole, ranges);
}

bool RingOp::has_work(std::size_t place, std::size_t part) const {
  const std::vector<IndexRange> ranges = ranges_of(place, part);
  const Attributes attributes = attributes_of(ranges);
  Signature mine = ring_.whole;
  mine.attributes = &attributes;
  for (std::size_t k = 0; k < mine.inputs.size(); ++k) {
    mine.inputs[k] = input_type(k, ranges);
  }
  const Work work = mine.op->work(mine);
  return work.products * (1 - work.causal) + work.others > 0;
}

TensorType RingOp::input_type(std::size_t k, std::span<const IndexRange> ranges) const {
  return {ring_.whole.inputs[k].dtype, Shape(rules::part_of_dims(factors_.inputs[k], ranges))};
}

TensorType RingOp::output_type(std::size_t k, std::span<const IndexRange> ranges) const {
  return {outputs_[k].dtype, Shape(rules::part_of_dims(factors_.outputs[k], ranges))};
}

std::vector<ValueId> RingOp::compute(GraphBuilder& builder, const std::vector<ValueId>& inputs,
                                     std::span<const IndexRange> ranges) const {
  return builder.add(ring_.whole.op->name, inputs, attributes_of(ranges));
}

std::vector<ValueId> RingOp::merge(GraphBuilder& builder, std::vector<ValueId> so_far,
                                   const std::vector<ValueId>& more) const {
  if (so_far.empty()) {
    return more;
  }
  so_far.insert(so_far.end(), more.begin(), more.end());
  return builder.add(ring_.whole.op->merge, std::move(so_far));
}

void RingMessages::send(ValueId value, std::size_t to, std::int64_t tag,
                        std::vector<ValueId>& sent) {
  sent.push_back(
      builder_.add1("send", {value}, {{"to", std::int64_t{ring_.ranks[to]}}, {"tag", tag}}));
}

ValueId RingMessages::receive(const TensorType& type, std::size_t from, std::int64_t tag) {
  Attributes attributes{{"from", std::int64_t{ring_.ranks[from]}}, {"tag", tag}};
  attributes["shape"] = type.shape.dims();
  attributes["dtype"] = std::string(to_text(type.dtype));
  return builder_.add1("receive", {}, attributes);
}

void RingMessages::wait_for(std::vector<ValueId>& sent) {
  if (!sent.empty()) {
    builder_.add("wait", sent);
    sent.clear();
  }
}

}  // namespace trireme::partition
