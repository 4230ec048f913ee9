#include "partition/rank_outline.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/indexed_vector.h"
#include "partition/buckets.h"
#include "partition/rank_values.h"
#include "partition/ring.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

constexpr ValueId kMissing{-1};
constexpr ValueId kDeferred{-2};  ///< an all-reduce that waits in a bucket

/// The ops that partitioning adds.
struct CommunicationOps {
  const Op& send = op_named("send");
  const Op& receive = op_named("receive");
  const Op& slice = op_named("slice");
  const Op& concat = op_named("concat");
  const Op& add = op_named("add");
  const Op& maximum = op_named("maximum");
  const Op& scale = op_named("scale");
  const Op& all_reduce = op_named("all_reduce");
  const Op& all_gather = op_named("all_gather");
  const Op& reduce_scatter = op_named("reduce_scatter");
  const Op& all_to_all = op_named("all_to_all");
};

class OutlineBuilder {
 public:
  OutlineBuilder(const SharedOrder& shared, const RankPlace& place, ShardTypes& types)
      : placed_(shared.placed),
        table_(shared.table),
        order_(shared.order),
        messages_(shared.messages),
        place_(place),
        types_(types),
        limits_(bucket_limits(placed_.placements.bucket)) {
    std::size_t slots = 0;
    for (CopyId id = 0; id < static_cast<CopyId>(placed_.copies.size()); ++id) {
      first_slot_.push_back(slots);
      slots += static_cast<std::size_t>(instances(id));
    }
    made_.assign(slots, kMissing);
  }

  Outline run() {
    add_leaves();
    const std::vector<std::vector<Turn>>& tasks = order_.at(place_.pipe);
    receive_for(0);
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      receive_for(static_cast<int>(task) + 1);
      for (const Turn& turn : tasks[task]) {
        do_turn(turn);
      }
      flush();
    }
    finish();
    return std::move(outline_);
  }

 private:
  // Values.

  [[nodiscard]] int instances(CopyId id) const {
    switch (order_.multiplicity(id)) {
      case Multiplicity::Once:
        return 1;
      case Multiplicity::PerMicrobatch:
        return table_.microbatches;
      case Multiplicity::PerVersion:
        return order_.updates() + 1;
      case Multiplicity::PerUpdate:
        return order_.updates();
    }
    return 1;
  }
  ValueId& made(CopyId id, int number) { return made_[first_slot_[id] + position_of(number)]; }
  [[nodiscard]] int micro_of(const Instance& what) const {
    return order_.multiplicity(what.id) == Multiplicity::PerMicrobatch ? what.number : -1;
  }

  ValueId get(CopyId id, int number) {
    if (made(id, number) == kDeferred) {
      flush();
    }
    ValueId& found = made(id, number);
    if (found == kMissing) {
      if (!placed_.is_input(id)) {
        refuse_missing(placed_, table_, id);
      }
      found = input_part(id, number);
    }
    return found;
  }
  ValueId get(CopyId id, const Turn& turn) { return get(id, order_.instance_for(turn, id)); }

  void define(const Instance& what, ValueId value) {
    if (what.part >= 0) {
      parts_[what] = value;
    } else {
      made(what.id, what.number) = value;
    }
    send(what, value);
    const CopyId leaf = what.part < 0 ? order_.leaf_of(what.id) : -1;
    if (leaf >= 0) {
      define({leaf, what.number + 1}, value);  // its next version
    }
  }
  void define(CopyId id, const Turn& turn, ValueId value) { define({id, turn.instance}, value); }

  // Nodes.

  ValueId add(const Op& op, std::span<const ValueId> inputs, const Outline::Value& result) {
    const ValueId output = outline_.add_value(result);
    outline_.add_node(row(op), inputs, std::span(&output, 1));
    return output;
  }
  [[nodiscard]] Outline::Node row(const Op& op) const {
    Outline::Node node;
    node.op = &op;
    node.is_sum = &op == &ops_.add;
    node.phase = phase_;
    node.block = block_;
    return node;
  }
  ValueId add_collective(const Op& op, ValueId x, const Outline::Value& result,
                         std::int64_t scratch) {
    Outline::Node node = row(op);
    node.is_collective = true;
    std::array<ValueId, 2> outputs{outline_.add_value(result)};
    if (scratch > 0) {
      outputs[1] = outline_.add_value({.bytes = scratch});
    }
    outline_.add_node(node, std::span(&x, 1), std::span(outputs).first(scratch > 0 ? 2 : 1));
    return outputs[0];
  }

  // Leaves and messages.

  void add_leaves() {
    std::vector<CopyId> leaves;
    for (CopyId id = 0; id < static_cast<CopyId>(placed_.copies.size()); ++id) {
      if (placed_.copy(id).step < 0 && !placed_.is_input(id) && is_mine(order_.stage_of(id))) {
        Outline::Value leaf = types_.of(id, -1);
        leaf.origin = placed_.value(id).origin;
        made(id, 0) = outline_.add_value(leaf);
        targets_[placed_.copy(id).value] = made(id, 0);
        leaves.push_back(id);
      }
    }
    for (const CopyId id : leaves) {
      send({id, 0}, made(id, 0));
    }
  }
  [[nodiscard]] bool is_mine(int stage) const { return order_.has_stage(place_.pipe, stage); }

  ValueId input_part(CopyId id, int m) {
    const auto [it, is_new] = inputs_.try_emplace(id);
    if (is_new) {
      it->second = outline_.add_value(types_.of_input(id));
    }
    const Outline::Value& part = types_.of(id, m);
    const bool whole = outline_.value(it->second).type == part.type;
    return whole || micro_of({id, m}) < 0 ? it->second
                                          : add(ops_.slice, std::span(&it->second, 1), part);
  }

  void send(const Instance& what, ValueId value) {
    for (const Message& message : messages_.sent(place_.pipe, what)) {
      Outline::Node node = row(ops_.send);
      node.until = message.until;
      outline_.add_node(node, std::span(&value, 1), {});
    }
  }

  void receive_for(int task) {
    for (const Message& message : messages_.received(place_.pipe, task)) {
      const ValueId value = outline_.add_value(types_.of(message.what.id, micro_of(message.what)));
      Outline::Node node = row(ops_.receive);
      node.tag = message.tag;
      outline_.add_node(node, {}, std::span(&value, 1));
      if (message.what.part >= 0) {
        parts_[message.what] = value;
      } else {
        made(message.what.id, message.what.number) = value;
      }
    }
  }

  // Steps.

  void do_turn(const Turn& turn) {
    const PlacedStep& step = placed_.steps[turn.step];
    block_ = step.block;
    phase_ = step.phase;
    if (turn.adds()) {
      add_in_time(step, turn);
    } else if (turn.part == Turn::Part::Complete) {
      complete_in_time(step, turn);
    } else if (step.node.valid()) {
      compute(step, turn);
    } else {
      change(step, turn);
    }
  }

  void compute(const PlacedStep& step, const Turn& turn) {
    const int m = order_.micro_of(turn);
    std::vector<ValueId> inputs;
    inputs.reserve(step.inputs.size());
    for (const CopyId input : step.inputs) {
      inputs.push_back(get(input, turn));
    }
    std::vector<ValueId> outputs;
    if (is_ring(turn.step)) {
      outputs = add_ring_at(step, m, inputs);
    } else {
      for (const CopyId output : step.outputs) {
        outputs.push_back(outline_.add_value(types_.of(output, m)));
      }
      outline_.add_node(row(*placed_.graph.node(step.node).op), inputs, outputs);
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      define(step.outputs[k], turn, outputs[k]);
    }
  }

  [[nodiscard]] bool is_ring(std::size_t number) {
    if (placed_.placements.in_turn.empty()) {
      return false;
    }
    const auto [it, is_new] = is_ring_.try_emplace(number);
    if (is_new) {
      const PlacedStep& step = placed_.steps[number];
      it->second =
          find_ring(factors_of(placed_.graph, placed_.graph.node(step.node)), step.factors) >= 0;
    }
    return it->second;
  }

  /// The nodes of a ring, which a small graph of their own has first.
  std::vector<ValueId> add_ring_at(const PlacedStep& step, int m,
                                   const std::vector<ValueId>& inputs) {
    const Ring ring =
        ring_at(signature_of(placed_.graph, placed_.graph.node(step.node)), step.factors,
                placed_.axes(), types_.coordinates(m), place_.axis_ranks);
    const RingNodes& nodes = nodes_of(ring, step, m);
    IndexedVector<ValueId, ValueId> now(nodes.graph.values().size());
    std::ranges::copy(inputs, now.begin());
    const auto mapped = [&](const std::vector<ValueId>& ids) {
      std::vector<ValueId> result;
      result.reserve(ids.size());
      for (const ValueId id : ids) {
        result.push_back(now[id]);
      }
      return result;
    };
    for (const Node& node : nodes.graph.nodes()) {
      for (const ValueId output : node.outputs) {
        now[output] = outline_.add_value(types_.of_type(nodes.graph.value(output).type));
      }
      outline_.add_node(row(*node.op), mapped(node.inputs), mapped(node.outputs));
    }
    return mapped(nodes.results);
  }

  /// A ring's nodes over its own inputs.
  struct RingNodes {
    Ring ring{};
    Graph graph{};
    std::vector<ValueId> results{};
  };
  const RingNodes& nodes_of(const Ring& ring, const PlacedStep& step, int m) {
    const auto known = std::ranges::find_if(
        rings_, [&](const RingNodes& one) { return is_alike(one.ring, ring); });
    if (known != rings_.end()) {
      return *known;
    }
    GraphBuilder builder("ring");
    std::vector<ValueId> inputs;
    for (const CopyId input : step.inputs) {
      inputs.push_back(builder.input("x" + std::to_string(inputs.size()),
                                     {placed_.value(input).type.dtype, types_.shape(input, m)}));
    }
    std::int64_t tag = 0;
    std::vector<ValueId> results = add_ring(builder, ring, inputs, tag);
    rings_.push_back({ring, builder.finish(), std::move(results)});
    return rings_.back();
  }
  static bool is_alike(const Ring& a, const Ring& b) {
    return a.whole.op == b.whole.op && a.whole.inputs == b.whole.inputs &&
           *a.whole.attributes == *b.whole.attributes && a.ranges == b.ranges;
  }

  void change(const PlacedStep& step, const Turn& turn) {
    const int m = order_.micro_of(turn);
    const CopyId to = step.outputs[0];
    if (step.change.kind == ChangeKind::AllReduce) {
      defer(step, turn);
      return;
    }
    const ValueId x = get(step.inputs[0], turn);
    const Outline::Value& result = types_.of(to, m);
    const std::int64_t bytes = outline_.value(x).bytes;
    switch (step.change.kind) {
      case ChangeKind::Slice:
        define(
            to, turn,
            outline_.value(x).type == result.type ? x : add(ops_.slice, std::span(&x, 1), result));
        return;
      case ChangeKind::AllReduce:  // above
        return;
      case ChangeKind::AllGather:
        define(to, turn,
               add_collective(ops_.all_gather, x, result,
                              is_strided(to, step.change, m) ? result.bytes : 0));
        return;
      case ChangeKind::ReduceScatter:
        define(to, turn,
               add_collective(ops_.reduce_scatter, x, result,
                              is_strided(to, step.change, m) ? bytes : 0));
        return;
      case ChangeKind::AllToAll:
        define(to, turn, add_collective(ops_.all_to_all, x, result, bytes + result.bytes));
        return;
    }
  }
  /// Whether blocks along the change's dimension are not contiguous, and so need scratch to be packed in.
  [[nodiscard]] bool is_strided(CopyId id, const Change& change, int m) const {
    const Shape shape = types_.shape(id, m);
    return std::any_of(shape.dims().begin(), shape.dims().begin() + change.dimension,
                       [](std::int64_t size) { return size != 1; });
  }

  // Buckets.

  struct Deferred {
    const PlacedStep* step = nullptr;
    Turn turn{};
  };
  struct Bucket {
    int axis = 0;
    Merge merge = Merge::Sum;
    DType dtype = DType::F32;
    Phase phase = Phase::Forward;
    std::int64_t bytes = 0;
    std::vector<std::pair<ValueId, Deferred>> members{};
  };

  void defer(const PlacedStep& step, const Turn& turn) {
    const CopyId from = step.inputs[0];
    made(step.outputs[0], turn.instance) = kDeferred;
    if (made(from, order_.instance_for(turn, from)) == kDeferred) {
      chained_.push_back({&step, turn});
      return;
    }
    const ValueId x = get(from, turn);
    const Bucket alone{.axis = step.change.axis,
                       .merge = placed_.copy(from).placement.partial.at(step.change.axis),
                       .dtype = placed_.value(from).type.dtype,
                       .phase = phase_,
                       .bytes = outline_.value(x).bytes,
                       .members = {{x, {&step, turn}}}};
    if (alone.bytes >= limits_.large) {
      reduce(alone);
    } else {
      fill(alone);
    }
  }
  /// Adds to the open bucket of its kind.
  void fill(const Bucket& more) {
    auto open = std::ranges::find_if(buckets_, [&](const Bucket& one) {
      return one.axis == more.axis && one.merge == more.merge && one.dtype == more.dtype &&
             one.phase == more.phase;
    });
    if (open == buckets_.end()) {
      buckets_.push_back(more);
      return;
    }
    open->members.push_back(more.members.front());
    open->bytes += more.bytes;
    if (open->bytes >= limits_.full) {
      const Bucket full = std::move(*open);
      buckets_.erase(open);
      reduce(full);
    }
  }

  void reduce(const Bucket& bucket) {
    const Phase phase = std::exchange(phase_, bucket.phase);
    if (bucket.members.size() == 1) {
      const auto& [x, what] = bucket.members.front();
      define_sum(what, add_collective(ops_.all_reduce, x, result_of(what), 0));
    } else {
      std::vector<ValueId> all;
      for (const auto& [x, what] : bucket.members) {
        all.push_back(x);
      }
      const Outline::Value packed{.bytes = bucket.bytes};
      const ValueId together = add(ops_.concat, all, packed);
      const ValueId sum = add_collective(ops_.all_reduce, together, packed, 0);
      for (const auto& [x, what] : bucket.members) {
        define_sum(what, add(ops_.slice, std::span(&sum, 1), result_of(what)));
      }
    }
    phase_ = phase;
  }
  [[nodiscard]] const Outline::Value& result_of(const Deferred& what) const {
    return types_.of(what.step->outputs[0], order_.micro_of(what.turn));
  }
  void define_sum(const Deferred& what, ValueId sum) {
    define(what.step->outputs[0], what.turn, sum);
  }

  void flush() {
    for (const Bucket& bucket : std::exchange(buckets_, {})) {
      reduce(bucket);
    }
    while (!chained_.empty()) {
      for (const Deferred& what : std::exchange(chained_, {})) {
        defer(*what.step, what.turn);
      }
      for (const Bucket& bucket : std::exchange(buckets_, {})) {
        reduce(bucket);
      }
    }
  }

  // Micro-batches.

  void add_in_time(const PlacedStep& step, const Turn& turn) {
    const CopyId to = step.outputs[0];
    const Instance own{to, order_.instance_for(turn, to), turn.copy};
    const ValueId x = get(step.inputs[0], turn);
    if (step.change.kind == ChangeKind::AllGather && order_.updates() == 1 && table_.copies == 1) {
      rows_[to][turn.instance] = x;
      return;
    }
    if (step.change.kind != ChangeKind::AllReduce) {
      refuse_merge(placed_, table_, to);
    }
    ValueId& sum = sums_.try_emplace(own).first->second;
    sum = sum == kMissing ? x : merged(step, sum, x);
    if (turn.part == Turn::Part::AddLast) {
      define(own, sum);
    }
  }
  ValueId merged(const PlacedStep& step, ValueId a, ValueId b) {
    const Merge merge = placed_.copy(step.inputs[0]).placement.partial.at(step.change.axis);
    return add(merge == Merge::Sum ? ops_.add : ops_.maximum, std::array{a, b},
               types_.of(step.outputs[0], -1));
  }

  void complete_in_time(const PlacedStep& step, const Turn& turn) {
    const CopyId to = step.outputs[0];
    if (step.change.kind == ChangeKind::AllGather) {
      std::vector<ValueId> parts;
      for (const auto& [number, part] : rows_[to]) {
        parts.push_back(part);
      }
      define(to, turn, add(ops_.concat, parts, types_.of(to, -1)));
      return;
    }
    ValueId all = kMissing;
    for (int number = 0; number < table_.copies; ++number) {
      if (order_.takes_part(turn.instance, number)) {
        const ValueId part = parts_.at({to, turn.instance, number});
        all = all == kMissing ? part : merged(step, all, part);
      }
    }
    const bool mean =
        order_.updates() > 1 &&
        placed_.copy(step.inputs[0]).placement.partial.at(step.change.axis) == Merge::Sum;
    define(to, turn, mean ? add(ops_.scale, std::span(&all, 1), types_.of(to, -1)) : all);
  }

  // The end.

  void finish() {
    phase_ = Phase::Update;
    block_ = -1;
    for (std::size_t k = 0; k < placed_.updates.size(); ++k) {
      const ValueId target = placed_.graph.updates()[k].target;
      if (is_mine(std::max(placed_.home[target], 0))) {
        const CopyId id = placed_.updates[k];
        outline_.updates.push_back({targets_.at(target), get(id, last_instance(id))});
      }
    }
    for (const CopyId id : placed_.outputs) {
      const bool scalar = placed_.value(id).type.shape.rank() == 0;
      if (scalar || (is_mine(order_.stage_of(id)) &&
                     order_.multiplicity(id) != Multiplicity::PerMicrobatch)) {
        outline_.outputs.push_back(get(id, last_instance(id)));
      }
    }
  }
  [[nodiscard]] int last_instance(CopyId id) const {
    return order_.multiplicity(id) == Multiplicity::PerUpdate ? order_.updates() - 1 : 0;
  }

  const Placed& placed_;
  const PipelineTable& table_;
  const RunOrder& order_;
  const Messages& messages_;
  const RankPlace& place_;
  ShardTypes& types_;
  CommunicationOps ops_;
  Outline outline_;
  Phase phase_ = Phase::Forward;
  std::int32_t block_ = -1;
  IndexedVector<CopyId, std::size_t> first_slot_;  ///< its first in made_
  std::vector<ValueId> made_;                      ///< by copy and instance
  std::map<Instance, ValueId> parts_;              ///< terms of the copies of the model
  std::map<Instance, ValueId> sums_;               ///< so far
  std::map<CopyId, std::map<int, ValueId>> rows_;
  std::map<CopyId, ValueId> inputs_;
  std::map<ValueId, ValueId> targets_;  ///< by value of the whole graph: its leaf here
  BucketLimits limits_;
  std::vector<Bucket> buckets_;
  std::vector<Deferred> chained_;
  std::map<std::size_t, bool> is_ring_;  ///< by step
  std::deque<RingNodes> rings_;          ///< made so far
};

}  // namespace

Outline outline_at(const SharedOrder& shared, const RankPlace& place, ShardTypes& types) {
  return OutlineBuilder(shared, place, types).run();
}

}  // namespace trireme::partition
