#include "partition/rank_outline.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "partition/ring.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

/// The ops that partitioning adds.
struct CommunicationOps {
  const Op& send = op_named("send");
  const Op& receive = op_named("receive");
  const Op& slice = op_named("slice");
  const Op& concat = op_named("concat");
  const Op& add = op_named("add");
  const Op& maximum = op_named("maximum");
  const Op& scale = op_named("scale");
  const Op& fill = op_named("fill");
  const Op& divide = op_named("divide");
  const Op& all_reduce = op_named("all_reduce");
  const Op& all_gather = op_named("all_gather");
  const Op& reduce_scatter = op_named("reduce_scatter");
  const Op& all_to_all = op_named("all_to_all");
};

class OutlineSink : public RankSink {
 public:
  OutlineSink(const Placed& placed, const RankPlace& place, ShardTypes& types)
      : placed_(placed), place_(place), types_(types) {}

  Outline finish() && { return std::move(outline_); }

  void set_phase(Phase phase) override { phase_ = phase; }
  void set_block(std::int32_t block) override { block_ = block; }

  // Values that exist when the step begins.

  ValueId leaf(CopyId id) override {
    Outline::Value leaf = types_.of(id, -1);
    leaf.origin = placed_.value(id).origin;
    return outline_.add_value(leaf);
  }
  ValueId input(CopyId id) override { return outline_.add_value(types_.of_input(id)); }
  ValueId input_part(CopyId id, int m, ValueId all) override {
    return slice(all, types_.of(id, m));
  }

  // Exchanges between stages.

  void send(const Message& message, ValueId value) override {
    Outline::Node node = row(ops_.send);
    node.until = message.until;
    outline_.add_node(node, std::span(&value, 1), {});
  }
  ValueId receive(const Message& message, int m) override {
    const ValueId value = outline_.add_value(types_.of(message.what.id, m));
    Outline::Node node = row(ops_.receive);
    node.tag = message.tag;
    outline_.add_node(node, {}, std::span(&value, 1));
    return value;
  }

  // Steps.

  std::vector<ValueId> compute(const Turn& turn, int m,
                               const std::vector<ValueId>& inputs) override {
    const PlacedStep& step = placed_.steps[turn.step];
    if (is_ring(turn.step)) {
      return add_ring_at(step, m, inputs);
    }
    std::vector<ValueId> outputs;
    outputs.reserve(step.outputs.size());
    for (const CopyId output : step.outputs) {
      outputs.push_back(outline_.add_value(types_.of(output, m)));
    }
    outline_.add_node(row(*placed_.graph.node(step.node).op), inputs, outputs);
    return outputs;
  }

  ValueId reshard(const PlacedStep& step, int m, ValueId x) override {
    const CopyId to = step.outputs[0];
    const Outline::Value& result = types_.of(to, m);
    const std::int64_t bytes = outline_.value(x).bytes;
    switch (step.change.kind) {
      case ChangeKind::Slice:
        return slice(x, result);
      case ChangeKind::AllReduce:
        break;  // see all_reduce()
      case ChangeKind::AllGather:
        return add_collective(ops_.all_gather, x, result,
                              is_strided(to, step.change, m) ? result.bytes : 0);
      case ChangeKind::ReduceScatter:
        return add_collective(ops_.reduce_scatter, x, result,
                              is_strided(to, step.change, m) ? bytes : 0);
      case ChangeKind::AllToAll:
        return add_collective(ops_.all_to_all, x, result, bytes + result.bytes);
    }
    TRIREME_CHECK(false, "an all-reduce is not a resharding of one value");
    return {};
  }

  // All-reduces.

  [[nodiscard]] std::int64_t bytes_of(ValueId value) const override {
    return outline_.value(value).bytes;
  }

  void all_reduce(const Bucket& bucket,
                  const std::function<void(std::size_t, ValueId)>& done) override {
    if (bucket.members.size() == 1) {
      const ValueId x = bucket.members.front().value;
      done(0, add_collective(ops_.all_reduce, x, like(x), 0));
      return;
    }
    std::vector<ValueId> all;
    all.reserve(bucket.members.size());
    for (const Bucket::Member& member : bucket.members) {
      all.push_back(member.value);
    }
    const Outline::Value packed{.bytes = bucket.bytes};
    const ValueId sum = add_collective(ops_.all_reduce, add(ops_.concat, all, packed), packed, 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      done(i, add(ops_.slice, std::span(&sum, 1), like(all[i])));
    }
  }

  // Sums.

  ValueId merge(CopyId id, Merge merge, ValueId a, ValueId b) override {
    return add(merge == Merge::Sum ? ops_.add : ops_.maximum, std::array{a, b}, types_.of(id, -1));
  }
  ValueId concat(CopyId id, int /*dimension*/, const std::vector<ValueId>& parts) override {
    return add(ops_.concat, parts, types_.of(id, -1));
  }
  ValueId scale(ValueId x, double /*factor*/) override {
    return add(ops_.scale, std::span(&x, 1), like(x));
  }
  ValueId mean(const std::vector<ValueId>& values,
               const std::vector<std::int64_t>& /*weights*/) override {
    ValueId sum{};
    for (const ValueId value : values) {
      const ValueId share = scale(value, 1);
      sum = sum.valid() ? add(ops_.add, std::array{sum, share}, like(sum)) : share;
    }
    const ValueId examples = add(ops_.fill, {}, like(sum));
    return add(ops_.divide, std::array{sum, examples}, like(sum));
  }

  // The end.

  void update(ValueId leaf, ValueId value) override { outline_.updates.push_back({leaf, value}); }
  void output(std::size_t /*k*/, ValueId value) override { outline_.outputs.push_back(value); }

 private:
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

  /// The value that a node computes with the type of x.
  [[nodiscard]] Outline::Value like(ValueId x) const {
    Outline::Value value = outline_.value(x);
    value.origin = Origin::Node;
    return value;
  }
  /// A slice that is all of x takes no memory.
  ValueId slice(ValueId x, const Outline::Value& result) {
    const bool whole = outline_.value(x).type == result.type;
    return whole ? x : add(ops_.slice, std::span(&x, 1), result);
  }
  /// Whether blocks along the change's dimension are not contiguous, and so need scratch to be packed in.
  [[nodiscard]] bool is_strided(CopyId id, const Change& change, int m) const {
    const Shape shape = types_.shape(id, m);
    return std::any_of(shape.dims().begin(), shape.dims().begin() + change.dimension,
                       [](std::int64_t size) { return size != 1; });
  }

  // Rings.

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

  /// The nodes of a ring, built in a small separate graph first.
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

  const Placed& placed_;
  const RankPlace& place_;
  ShardTypes& types_;
  CommunicationOps ops_;
  Outline outline_;
  Phase phase_ = Phase::Forward;
  std::int32_t block_ = -1;
  std::map<std::size_t, bool> is_ring_;  ///< by step
  std::deque<RingNodes> rings_;          ///< made so far
};

}  // namespace

Outline outline_at(const SharedOrder& shared, const RankPlace& place, ShardTypes& types) {
  OutlineSink sink(shared.placed, place, types);
  write_rank(shared, place, sink);
  return std::move(sink).finish();
}

}  // namespace trireme::partition
