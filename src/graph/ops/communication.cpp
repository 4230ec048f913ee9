// Communication between ranks, as nodes of the graph that one rank runs. A group is named after the mesh axis of its
// ranks; `ranks` is their number and `index` this rank's position.
//
//   all_reduce:     y = the sum (max, min) of all ranks' x
//   all_gather:     y = all ranks' x side by side along `dimension`, which is `size` long then
//   reduce_scatter: y = this rank's block, along `dimension`, of the sum of all ranks' x
//   all_to_all:     reshards x, sharded along `from`, to y, sharded along `to`
//   send, receive:  one tensor from one rank to another; the pair has a unique tag. The send is due once
//                   the message with the tag `until` has arrived (-1: at the end of the step), which proves
//                   that the other rank has posted the receive
//   wait:           nothing that follows starts before these sends are done
//
// Blocks: a dimension of `size` has `size / unit` pieces, distributed evenly, with one more for the first ranks if
// their number is not divisible (block_of).
//
// Blocks that are not contiguous in memory are packed in `scratch` first, which is empty if they are.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/blocks.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::communication {
namespace {

TensorType scratch_for(bool needed, Bytes bytes) {
  return {DType::U8, {needed ? bytes.count : 0}};
}

/// Whether blocks along this dimension are not contiguous.
bool is_strided(const Shape& shape, int dimension) {
  const auto& dims = shape.dims();
  return std::accumulate(dims.begin(), dims.begin() + dimension, std::int64_t{1},
                         std::multiplies<>()) != 1;
}

Shape with_dim(const Shape& shape, int dimension, std::int64_t size) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.at(dimension) = size;
  return Shape(std::move(dims));
}

int dimension_of(const Signature& s, std::string_view name) {
  return rules::axis_of(s, s.integer(name), s.shape(0).rank());
}

void require_place(const Signature& s) {
  s.require(s.integer("ranks") >= 1, "a group needs at least one rank");
  s.require(
      s.integer("index") >= 0 && s.integer("index") < s.integer("ranks"),
      fmt::format("rank {} is out of range; there are {}", s.integer("index"), s.integer("ranks")));
}

void require_unit(const Signature& s, std::string_view unit, std::int64_t size) {
  s.require(s.integer(unit) >= 1 && size % s.integer(unit) == 0,
            fmt::format("{} elements are not a multiple of {} = {}", size, unit, s.integer(unit)));
}

IndexRange own_block(const Signature& s, std::int64_t size, std::string_view unit) {
  require_unit(s, unit, size);
  return block_of(size, s.integer(unit), s.integer("ranks"), s.integer("index"));
}

std::vector<TensorType> infer_all_gather(const Signature& s) {
  require_place(s);
  const int dimension = dimension_of(s, "dimension");
  const std::int64_t size = s.integer("size");
  s.require(own_block(s, size, "unit").length == s.shape(0).dim(dimension),
            fmt::format("a block of {} is not {} long", size, s.shape(0).dim(dimension)));
  const TensorType whole{s.inputs[0].dtype, with_dim(s.shape(0), dimension, size)};
  return {whole, scratch_for(is_strided(whole.shape, dimension), size_of(whole))};
}

std::vector<TensorType> infer_reduce_scatter(const Signature& s) {
  require_place(s);
  const int dimension = dimension_of(s, "dimension");
  const IndexRange block = own_block(s, s.shape(0).dim(dimension), "unit");
  return {{s.inputs[0].dtype, with_dim(s.shape(0), dimension, block.length)},
          scratch_for(is_strided(s.shape(0), dimension), size_of(s.inputs[0]))};
}

std::vector<TensorType> infer_all_to_all(const Signature& s) {
  require_place(s);
  const int from = dimension_of(s, "from");
  const int to = dimension_of(s, "to");
  s.require(from != to, "from and to are the same dimension");
  s.require(own_block(s, s.integer("size"), "from_unit").length == s.shape(0).dim(from),
            fmt::format("a block of {} is not {} long", s.integer("size"), s.shape(0).dim(from)));
  const IndexRange block = own_block(s, s.shape(0).dim(to), "to_unit");
  const TensorType result{
      s.inputs[0].dtype, with_dim(with_dim(s.shape(0), from, s.integer("size")), to, block.length)};
  return {result, scratch_for(true, {size_of(s.inputs[0]).count + size_of(result).count})};
}

std::vector<TensorType> infer_send(const Signature&) {
  return {{DType::U8, {0}}};
}

std::vector<TensorType> infer_receive(const Signature& s) {
  return {{parse_dtype(s.text("dtype")), Shape(s.integers("shape"))}};
}

/// No sharding: partitioning happens before these ops are added.
Factors factors(const Signature& s) {
  Factors result;
  const auto add = [&](const Shape& shape) {
    Factors::Dims dims;
    for (const std::int64_t size : shape.dims()) {
      dims.push_back({static_cast<std::int32_t>(result.factors.size())});
      result.factors.push_back({size, Factor::Split::Never});
    }
    return dims;
  };
  for (const TensorType& input : s.inputs) {
    result.inputs.push_back(add(input.shape));
  }
  for (const TensorType& output : s.op->infer(s)) {
    result.outputs.push_back(add(output.shape));
  }
  return result;
}

Work work(const Signature& s) {
  return {.bytes = rules::bytes_of_operands(s)};
}

void reference(const Signature& s, std::span<const Dense>, std::span<Dense>) {
  s.refuse("needs the other ranks");
}

const AttributeRow kGroup{"group", std::string(), false};
const AttributeRow kRanks{"ranks", std::int64_t{1}, false};
const AttributeRow kIndex{"index", std::int64_t{0}, false};
const AttributeRow kReduction{"reduction", std::string("sum")};
const AttributeRow kDimension{"dimension", std::int64_t{0}};
const AttributeRow kSize{"size", std::int64_t{0}, false};
const AttributeRow kUnit{"unit", std::int64_t{1}};
const AttributeRow kTag{"tag", std::int64_t{0}, false};

Op row(std::string_view name, std::string_view summary, std::vector<AttributeRow> attributes,
       std::vector<TensorType> (*infer)(const Signature&)) {
  return {.name = name,
          .summary = summary,
          .inputs = {"x"},
          .outputs = {"y", "scratch"},
          .attributes = std::move(attributes),
          .infer = infer,
          .factors = factors,
          .communicates = true,
          .work = work,
          .reference = reference};
}

std::vector<TensorType> infer_wait(const Signature&) {
  return {{DType::U8, {0}}};
}

void reference_wait(const Signature&, std::span<const Dense>, std::span<Dense>) {}

/// Does nothing itself: the executor has waited for its inputs.
Op wait() {
  return {.name = "wait",
          .summary = "these sends are done",
          .inputs = {"sent..."},
          .outputs = {"done"},
          .infer = infer_wait,
          .factors = factors,
          .work = work,
          .reference = reference_wait};
}

}  // namespace

std::vector<Op> rows() {
  std::vector<Op> rows{
      row("all_reduce", "the sum (max, min) of all ranks' x", {kGroup, kRanks, kReduction},
          rules::like_first),
      row("all_gather", "all ranks' x side by side",
          {kGroup, kRanks, kIndex, kDimension, kSize, kUnit}, infer_all_gather),
      row("reduce_scatter", "this rank's block of the sum of all ranks' x",
          {kGroup, kRanks, kIndex, kDimension, kUnit, kReduction}, infer_reduce_scatter),
      row("all_to_all", "x sharded along another dimension",
          {kGroup,
           kRanks,
           kIndex,
           {"from", std::int64_t{0}, false},
           {"to", std::int64_t{0}, false},
           kSize,
           {"from_unit", std::int64_t{1}},
           {"to_unit", std::int64_t{1}}},
          infer_all_to_all),
      row("send", "x goes to another rank",
          {{"to", std::int64_t{0}, false}, kTag, {"until", std::int64_t{-1}}}, infer_send),
      row("receive", "what another rank sends",
          {{"from", std::int64_t{0}, false},
           kTag,
           {"shape", std::vector<std::int64_t>(), false},
           {"dtype", std::string("f32")}},
          infer_receive)};
  rows[0].outputs = {"y"};
  rows[0].in_place = {{0, 0}};
  rows[4].outputs = {"sent"};
  rows[5].inputs = {};
  rows[5].outputs = {"y"};
  rows.push_back(wait());
  return rows;
}

}  // namespace trireme::ops::communication
