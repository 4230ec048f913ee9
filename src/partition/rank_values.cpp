#include "partition/rank_values.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme::partition {

void refuse_missing(const Placed& placed, const PipelineTable& table, CopyId id) {
  const std::string& name = placed.value(id).name;
  // Of the models here, only that loss is a mean over all micro-batches; a graph of a program's own may have others.
  const std::string what = name.starts_with("scale") ? "the load-balancing loss" : name;
  throw Error(
      ErrorKind::Usage,
      fmt::format("--schedule {} cannot run: {} needs every micro-batch's forward pass first; use "
                  "--schedule gpipe or --experts …,per=microbatch",
                  table.name, what));
}

void refuse_merge(const Placed& placed, const PipelineTable& table, CopyId id) {
  throw Error(ErrorKind::Usage,
              fmt::format("{} cannot be exchanged between micro-batches by the table {}",
                          placed.value(id).name, table.name));
}

RankValues::RankValues(const Placed& placed, const RankPlace& place, const PipelineTable& table,
                       const RunOrder& order, GraphBuilder& builder)
    : placed_(placed),
      place_(place),
      table_(table),
      order_(order),
      builder_(builder),
      messages_(placed, table, order) {}

std::vector<int> RankValues::coordinates(int m) const {
  std::vector<int> all = place_.coordinates;
  if (placed_.micro() >= 0 && m >= 0) {
    all[position_of(placed_.micro())] = m;
  }
  return all;
}

// Exchanges between stages.

void RankValues::send(const Instance& what, ValueId made) {
  for (const Message& message : messages_.sent(place_.pipe, what)) {
    builder_.add("send", {made},
                 {{"to", rank_of(message.to)},
                  {"tag", std::int64_t{message.tag}},
                  {"until", std::int64_t{message.until}}});
  }
}

void RankValues::receive_for(int task) {
  for (const Message& message : messages_.received(place_.pipe, task)) {
    made_[message.what] = receive(message);
    received_.insert(message.what);
  }
}

ValueId RankValues::receive(const Message& message) {
  const CopyId id = message.what.id;
  const TensorType& type = placed_.value(id).type;
  const bool by_micro = order_.multiplicity(id) == Multiplicity::PerMicrobatch;
  const Shape part = shape_at(placed_.copy(id).placement, type.shape, placed_.axes(),
                              coordinates(by_micro ? message.what.number : -1));
  const ValueId made = builder_.add1("receive", {},
                                     {{"from", rank_of(message.from)},
                                      {"tag", std::int64_t{message.tag}},
                                      {"shape", part.dims()},
                                      {"dtype", std::string(to_text(type.dtype))}});
  builder_.rename(made, placed_.value(id).name + ".received");
  return made;
}

// Values.

void RankValues::add_leaves() {
  for (std::size_t c = 0; c < placed_.copies.size(); ++c) {
    const auto id = static_cast<CopyId>(c);
    const Value& leaf = placed_.value(id);
    if (placed_.copy(id).step >= 0 || placed_.is_input(id) || !is_mine(order_.stage_of(id))) {
      continue;
    }
    const TensorType type{leaf.type.dtype, shape_at(placed_.copy(id).placement, leaf.type.shape,
                                                    placed_.axes(), coordinates(0))};
    made_[{id, 0}] = leaf.origin == Origin::Parameter ? builder_.parameter(leaf.name, type)
                                                      : builder_.state(leaf.name, type);
    stored_[leaf.name] = placed_.copy(id).placement;
  }
  const std::map<Instance, ValueId> leaves = made_;
  for (const auto& [what, leaf] : leaves) {
    send(what, leaf);
  }
}

/// This rank's shard of an input, of all micro-batches, one after the other.
ValueId RankValues::input_leaf(CopyId id) {
  const Copy& one = placed_.copy(id);
  const Value& leaf = placed_.value(one);
  const auto it = inputs_.find(id);
  if (it != inputs_.end()) {
    return it->second;
  }
  std::vector<std::int64_t> dims =
      shape_at(one.placement, leaf.type.shape, placed_.axes(), coordinates(0)).dims();
  const int by_micro = placed_.micro() < 0 ? -1 : one.placement.dimension_of(placed_.micro());
  if (by_micro >= 0) {
    const std::size_t d = position_of(by_micro);
    TRIREME_CHECK(one.placement.dims[d].axes.front() == placed_.micro(), leaf.name);
    dims[d] = 0;
    for (int m = 0; m < table_.microbatches; ++m) {
      dims[d] += part_length(one, d, m);
    }
  }
  const ValueId made = builder_.input(leaf.name, {leaf.type.dtype, Shape(dims)});
  inputs_[id] = made;
  stored_[leaf.name] = one.placement;
  return made;
}
std::int64_t RankValues::part_length(const Copy& one, std::size_t d, int m) const {
  return block_at(one.placement.dims[d], placed_.value(one).type.shape.dims()[d], placed_.axes(),
                  coordinates(m))
      .length;
}

ValueId RankValues::input_part(CopyId id, int m) {
  const ValueId all = input_leaf(id);
  const Copy& one = placed_.copy(id);
  if (order_.multiplicity(id) != Multiplicity::PerMicrobatch) {
    return all;
  }
  const std::size_t d = position_of(one.placement.dimension_of(placed_.micro()));
  std::int64_t begin = 0;
  for (int before = 0; before < m; ++before) {
    begin += part_length(one, d, before);
  }
  return slice(all, d, begin, part_length(one, d, m));
}

ValueId RankValues::slice(ValueId x, std::size_t dimension, std::int64_t begin,
                          std::int64_t length) {
  std::vector<std::int64_t> from(builder_.shape(x).dims().size(), 0);
  std::vector<std::int64_t> to = builder_.shape(x).dims();
  from[dimension] = begin;
  to[dimension] = begin + length;
  const ValueId made = builder_.add1("slice", {x}, {{"begin", from}, {"end", to}});
  builder_.rename(made, builder_.graph().value(x).name + ".slice");
  return made;
}

ValueId RankValues::get(CopyId id, int number) {
  const auto it = made_.find({id, number});
  if (it != made_.end()) {
    return it->second;
  }
  if (placed_.is_input(id)) {
    return made_[{id, number}] = input_part(id, number);
  }
  refuse_missing(placed_, table_, id);
}

void RankValues::define(const Instance& what, ValueId made) {
  made_[what] = made;
  send(what, made);
  const CopyId leaf = what.part < 0 ? order_.leaf_of(what.id) : -1;
  if (leaf >= 0) {
    define({leaf, what.number + 1}, made);  // its next version
  }
}

}  // namespace trireme::partition
