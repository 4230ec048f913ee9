#include "partition/rank_values.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "trireme/error.h"

namespace trireme::partition {

RankValues::RankValues(const Placed& placed, const RankPlace& place, const PipelineTable& table,
                       GraphBuilder& builder)
    : placed_(placed), place_(place), table_(table), builder_(builder) {
  find_needs();
}

std::vector<int> RankValues::coordinates(int m) const {
  std::vector<int> all = place_.coordinates;
  if (micro() >= 0 && m >= 0) {
    all[static_cast<std::size_t>(micro())] = m;
  }
  return all;
}

// Exchanges between stages.

int RankValues::stage_of(CopyId id) const {
  const Copy& one = copy(id);
  return one.step >= 0 ? placed_.steps[static_cast<std::size_t>(one.step)].stage
                       : std::max(placed_.home[static_cast<std::size_t>(one.value.index)], 0);
}
bool RankValues::is_input(CopyId id) const {
  return copy(id).step < 0 && value(copy(id).value).origin == Origin::Input;
}

void RankValues::find_needs() {
  const auto need = [&](CopyId id, int stage) {
    if (!is_input(id) && pipe_of(stage_of(id)) != pipe_of(stage)) {
      needs_[id].insert(pipe_of(stage));
    }
  };
  for (const PlacedStep& step : placed_.steps) {
    for (const CopyId input : step.inputs) {
      need(input, step.stage);
    }
  }
  for (const CopyId output : placed_.outputs) {
    for (int stage = 0; stage < table_.stages; ++stage) {
      if (value(copy(output).value).type.shape.rank() == 0) {
        need(output, stage);
      }
    }
  }
}

std::int64_t RankValues::tag_of(CopyId id, int instance) const {
  return static_cast<std::int64_t>(id) * (table_.microbatches + 1) + instance + 1;
}

void RankValues::send(CopyId id, int instance) {
  const auto it = needs_.find(id);
  if (it == needs_.end()) {
    return;
  }
  const ValueId what = get(id, instance);
  for (const int pipe : it->second) {
    builder_.add("send", {what},
                 {{"to", std::int64_t{place_.pipe_ranks.at(static_cast<std::size_t>(pipe))}},
                  {"tag", tag_of(id, instance)}});
  }
}

ValueId RankValues::receive(CopyId id, int instance) {
  const Copy& one = copy(id);
  const TensorType& type = value(one.value).type;
  const Shape part = shape_at(one.placement, type.shape, axes(), coordinates(instance));
  const int from = place_.pipe_ranks.at(static_cast<std::size_t>(pipe_of(stage_of(id))));
  return builder_.add1("receive", {},
                       {{"from", std::int64_t{from}},
                        {"tag", tag_of(id, instance)},
                        {"shape", part.dims()},
                        {"dtype", std::string(to_text(type.dtype))}});
}

// Values.

void RankValues::add_leaves() {
  for (std::size_t c = 0; c < placed_.copies.size(); ++c) {
    const auto id = static_cast<CopyId>(c);
    const Value& leaf = value(copy(id).value);
    if (copy(id).step >= 0 || is_input(id) || !is_mine(stage_of(id))) {
      continue;
    }
    const TensorType type{leaf.type.dtype,
                          shape_at(copy(id).placement, leaf.type.shape, axes(), coordinates(0))};
    made_[{id, kOnce}] = leaf.origin == Origin::Parameter ? builder_.parameter(leaf.name, type)
                                                          : builder_.state(leaf.name, type);
    stored_[leaf.name] = copy(id).placement;
  }
  for (std::size_t c = 0; c < placed_.copies.size(); ++c) {
    const auto id = static_cast<CopyId>(c);
    if (made_.contains({id, kOnce})) {
      send(id, kOnce);
    }
  }
}

/// The part of an input that this rank has, of all micro-batches, one after the other.
ValueId RankValues::input_leaf(CopyId id) {
  const Copy& one = copy(id);
  const Value& leaf = value(one.value);
  const auto it = inputs_.find(id);
  if (it != inputs_.end()) {
    return it->second;
  }
  std::vector<std::int64_t> dims =
      shape_at(one.placement, leaf.type.shape, axes(), coordinates(0)).dims();
  const int by_micro = micro() < 0 ? -1 : one.placement.dimension_of(micro());
  if (by_micro >= 0) {
    const auto d = static_cast<std::size_t>(by_micro);
    TRIREME_CHECK(one.placement.dims[d].axes.front() == micro(), leaf.name);
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
  return block_at(one.placement.dims[d], value(one.value).type.shape.dims()[d], axes(),
                  coordinates(m))
      .length;
}

ValueId RankValues::input_part(CopyId id, int m) {
  const ValueId all = input_leaf(id);
  if (m == kOnce) {
    return all;
  }
  const Copy& one = copy(id);
  const auto d = static_cast<std::size_t>(one.placement.dimension_of(micro()));
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
  if (begin == 0 && length == to[dimension]) {
    return x;
  }
  from[dimension] = begin;
  to[dimension] = begin + length;
  return builder_.add1("slice", {x}, {{"begin", from}, {"end", to}});
}

ValueId RankValues::get(CopyId id, int m) {
  const int instance = instance_of(id, m);
  const auto it = made_.find({id, instance});
  if (it != made_.end()) {
    return it->second;
  }
  if (is_input(id)) {
    return made_[{id, instance}] = input_part(id, instance);
  }
  if (!is_mine(stage_of(id))) {
    return made_[{id, instance}] = receive(id, instance);
  }
  const Copy& one = copy(id);
  throw Error(
      ErrorKind::Usage,
      fmt::format("the schedule {} needs {} of a micro-batch before all have been through the "
                  "forward, and it takes them all (a loss over the whole batch, such as the "
                  "balance of experts, does); use the schedule gpipe, or no micro-batches",
                  table_.name, value(one.value).name));
}

void RankValues::define(CopyId id, int m, ValueId made) {
  const int instance = instance_of(id, m);
  made_[{id, instance}] = made;
  send(id, instance);
}

}  // namespace trireme::partition
