#include "partition/lower.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "partition/early_gathers.h"
#include "partition/progress.h"
#include "partition/rank_writer.h"
#include "partition/ring.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

/// Above the tags of messages between stages.
constexpr std::int64_t kFirstRingTag = 1 << 24;

/// Writes the graph of a rank. A value has the same name on all ranks, regardless of what else they compute.
class GraphSink : public RankSink {
 public:
  GraphSink(const Placed& placed, const RankPlace& place, const RunOrder& order)
      : placed_(placed), place_(place), order_(order), builder_(placed.graph.name()) {}

  RankGraph finish() && {
    result_.graph = builder_.finish();
    return std::move(result_);
  }

  void set_phase(Phase phase) override { builder_.set_phase(phase); }
  void set_block(std::int32_t block) override { builder_.set_block(block); }

  // Values that exist when the step begins.

  ValueId leaf(CopyId id) override {
    const Value& leaf = placed_.value(id);
    const TensorType type{leaf.type.dtype, shard_shape(id, 0)};
    result_.stored[leaf.name] = placed_.copy(id).placement;
    return leaf.origin == Origin::Parameter ? builder_.parameter(leaf.name, type)
                                            : builder_.state(leaf.name, type);
  }

  ValueId input(CopyId id) override {
    const Copy& one = placed_.copy(id);
    const Value& leaf = placed_.value(one);
    std::vector<std::int64_t> dims = shard_shape(id, 0).dims();
    if (placed_.is_by_micro(id)) {
      const int d = micro_dimension(one);
      TRIREME_CHECK(one.placement.dims[d].axes.front() == placed_.micro(), leaf.name);
      dims[d] = part_begin(one, d, placed_.axes()[placed_.micro()].size);
    }
    result_.stored[leaf.name] = one.placement;
    return builder_.input(leaf.name, {leaf.type.dtype, Shape(dims)});
  }

  ValueId input_part(CopyId id, int m, ValueId all) override {
    const Copy& one = placed_.copy(id);
    const int d = micro_dimension(one);
    return slice(all, d, part_begin(one, d, m), part_length(one, d, m));
  }

  // Exchanges between stages.

  void send(const Message& message, ValueId value) override {
    builder_.add("send", {value},
                 {{"to", rank_of(message.to)},
                  {"tag", std::int64_t{message.tag}},
                  {"until", std::int64_t{message.until}}});
  }

  ValueId receive(const Message& message, int m) override {
    const Value& value = placed_.value(message.what.id);
    const ValueId made = builder_.add1("receive", {},
                                       {{"from", rank_of(message.from)},
                                        {"tag", std::int64_t{message.tag}},
                                        {"shape", shard_shape(message.what.id, m).dims()},
                                        {"dtype", std::string(to_text(value.type.dtype))}});
    builder_.rename(made, value.name + ".received");
    return made;
  }

  // Steps.

  std::vector<ValueId> compute(const Turn& turn, int m,
                               const std::vector<ValueId>& inputs) override {
    const PlacedStep& step = placed_.steps[turn.step];
    std::vector<ValueId> outputs = results_of(turn, m, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Value& whole = placed_.value(step.outputs[k]);
      const Shape expected = shard_shape(step.outputs[k], m);
      TRIREME_CHECK(builder_.shape(outputs[k]) == expected,
                    fmt::format("{} is {}, not {}", whole.name, to_text(builder_.shape(outputs[k])),
                                to_text(expected)));
      builder_.rename(outputs[k], name_of(whole, turn, m));
    }
    return outputs;
  }

  ValueId reshard(const PlacedStep& step, int m, ValueId x) override {
    const Change& what = step.change;
    const Copy& from = placed_.copy(step.inputs[0]);
    const Copy& to = placed_.copy(step.outputs[0]);
    const int d = std::max(what.dimension, 0);
    Attributes attributes = group_attributes(what.axis);
    attributes["index"] = std::int64_t{place_.coordinates[what.axis]};
    switch (what.kind) {
      case ChangeKind::Slice:
        return own_slice(to, d, m, x);
      case ChangeKind::AllReduce:
        break;  // see all_reduce()
      case ChangeKind::AllGather:
        attributes["dimension"] = static_cast<std::int64_t>(d);
        attributes["size"] = size_before(from, d, m);
        attributes["unit"] = from.placement.dims[d].unit;
        return builder_.add("all_gather", {x}, attributes)[0];
      case ChangeKind::ReduceScatter:
        attributes["dimension"] = static_cast<std::int64_t>(d);
        attributes["unit"] = to.placement.dims[d].unit;
        attributes["reduction"] = std::string(to_text(from.placement.partial.at(what.axis)));
        return builder_.add("reduce_scatter", {x}, attributes)[0];
      case ChangeKind::AllToAll:
        attributes["from"] = static_cast<std::int64_t>(d);
        attributes["to"] = std::int64_t{what.to};
        attributes["size"] = size_before(from, d, m);
        attributes["from_unit"] = from.placement.dims[d].unit;
        attributes["to_unit"] = to.placement.dims[what.to].unit;
        return builder_.add("all_to_all", {x}, attributes)[0];
    }
    TRIREME_CHECK(false, "an all-reduce is not a resharding of one value");
    return {};
  }

  // All-reduces.

  [[nodiscard]] std::int64_t bytes_of(ValueId value) const override {
    return size_of(builder_.type(value)).count;
  }

  void all_reduce(const Bucket& bucket,
                  const std::function<void(std::size_t, ValueId)>& done) override {
    Attributes attributes = group_attributes(bucket.key.axis);
    attributes["reduction"] = std::string(to_text(bucket.key.merge));
    if (bucket.members.size() == 1) {
      done(0, builder_.add1("all_reduce", {bucket.members.front().value}, attributes));
      return;
    }
    std::vector<ValueId> flat;
    flat.reserve(bucket.members.size());
    for (const Bucket::Member& member : bucket.members) {
      const std::int64_t count = builder_.shape(member.value).element_count();
      flat.push_back(
          builder_.add1("reshape", {member.value}, {{"shape", std::vector<std::int64_t>{count}}}));
    }
    const ValueId together = builder_.add1("concat", flat, {{"axis", std::int64_t{0}}});
    builder_.rename(together,
                    "bucket");  // the same on all ranks, regardless of what else they concatenate
    const ValueId sum = builder_.add1("all_reduce", {together}, attributes);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < bucket.members.size(); ++i) {
      const Shape shape = builder_.shape(bucket.members[i].value);
      const std::int64_t end = begin + shape.element_count();
      const ValueId part =
          builder_.add1("slice", {sum},
                        {{"begin", std::vector<std::int64_t>{std::exchange(begin, end)}},
                         {"end", std::vector<std::int64_t>{end}}});
      done(i, builder_.add1("reshape", {part}, {{"shape", shape.dims()}}));
    }
  }

  // Sums.

  ValueId merge(CopyId id, Merge merge, ValueId a, ValueId b) override {
    const ValueId made = builder_.add1(merge == Merge::Sum ? "add" : "maximum", {a, b});
    builder_.rename(made, placed_.value(id).name + ".merged");
    return made;
  }
  ValueId concat(CopyId /*id*/, int dimension, const std::vector<ValueId>& parts) override {
    return builder_.add1("concat", parts, {{"axis", std::int64_t{dimension}}});
  }
  ValueId scale(ValueId x, double factor) override {
    return builder_.add1("scale", {x}, {{"factor", factor}});
  }
  ValueId mean(const std::vector<ValueId>& values,
               const std::vector<std::int64_t>& weights) override {
    ValueId sum{};
    std::int64_t all = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      all += weights[k];
      const ValueId share = scale(values[k], static_cast<double>(weights[k]));
      sum = sum.valid() ? builder_.add1("add", {sum, share}) : share;
    }
    const ValueId examples =
        builder_.add1("fill", {},
                      {{"value", static_cast<double>(all)},
                       {"shape", builder_.shape(sum).dims()},
                       {"dtype", std::string(to_text(builder_.type(sum).dtype))}});
    return builder_.add1("divide", {sum, examples});
  }

  // The end.

  void update(ValueId leaf, ValueId value) override { builder_.update(leaf, value); }
  void output(std::size_t k, ValueId value) override {
    const std::string& name = placed_.graph.outputs()[k].name;
    builder_.output(name, value);
    result_.outputs[name] = placed_.copy(placed_.outputs[k]).placement;
  }

 private:
  // Shards of this rank.

  /// In micro-batch m (-1: in none).
  [[nodiscard]] std::vector<int> coordinates(int m) const {
    std::vector<int> all = place_.coordinates;
    if (placed_.micro() >= 0 && m >= 0) {
      all[placed_.micro()] = m;
    }
    return all;
  }
  [[nodiscard]] Shape shard_shape(CopyId id, int m) const {
    return shape_at(placed_.copy(id).placement, placed_.value(id).type.shape, placed_.axes(),
                    coordinates(m));
  }
  [[nodiscard]] int micro_dimension(const Copy& one) const {
    return one.placement.dimension_of(placed_.micro());
  }
  [[nodiscard]] std::int64_t part_length(const Copy& one, std::size_t d, int m) const {
    return block_at(one.placement.dims[d], placed_.value(one).type.shape.dims()[d], placed_.axes(),
                    coordinates(m))
        .length;
  }
  /// Where the part of micro-batch m begins in the rank's concatenated shards of all micro-batches.
  [[nodiscard]] std::int64_t part_begin(const Copy& one, std::size_t d, int m) const {
    std::int64_t begin = 0;
    for (int before = 0; before < m; ++before) {
      begin += part_length(one, d, before);
    }
    return begin;
  }
  /// The size of a dimension in a placement without the innermost sharding axis.
  [[nodiscard]] std::int64_t size_before(const Copy& copy, std::size_t d, int m) const {
    return block_before(copy, d, m).length;
  }
  [[nodiscard]] IndexRange block_before(const Copy& copy, std::size_t d, int m) const {
    const Placement::Dim& dim = copy.placement.dims[d];
    return block_at(dim, placed_.value(copy).type.shape.dims()[d], placed_.axes(), coordinates(m),
                    dim.axes.size() - 1);
  }
  [[nodiscard]] std::int64_t rank_of(int pipe) const { return place_.pipe_ranks.at(pipe); }

  // Nodes.

  [[nodiscard]] Attributes group_attributes(int axis) const {
    const MeshAxis& group = placed_.axes()[axis];
    return {{"group", group.name}, {"ranks", std::int64_t{group.size}}};
  }

  ValueId own_slice(const Copy& to, std::size_t d, int m, ValueId x) {
    const IndexRange own = block_at(to.placement.dims[d], placed_.value(to).type.shape.dims()[d],
                                    placed_.axes(), coordinates(m));
    return slice(x, d, own.begin - block_before(to, d, m).begin, own.length);
  }
  /// A slice even if it is all of x, which other ranks do not have: the names of values are the same on all ranks.
  ValueId slice(ValueId x, std::size_t dimension, std::int64_t begin, std::int64_t length) {
    std::vector<std::int64_t> from(builder_.shape(x).dims().size(), 0);
    std::vector<std::int64_t> to = builder_.shape(x).dims();
    from[dimension] = begin;
    to[dimension] = begin + length;
    const ValueId made = builder_.add1("slice", {x}, {{"begin", from}, {"end", to}});
    builder_.rename(made, builder_.graph().value(x).name + ".slice");
    return made;
  }

  [[nodiscard]] std::string name_of(const Value& value, const Turn& turn, int m) const {
    const bool by_update = order_.updates() > 1 && placed_.steps[turn.step].phase == Phase::Update;
    return m >= 0      ? fmt::format("{}.m{}", value.name, m)
           : by_update ? fmt::format("{}.u{}", value.name, turn.instance)
                       : value.name;
  }
  /// Sets the round and the number of rounds of an optimizer that counts its steps.
  void count_updates(const Turn& turn, Attributes& attributes) const {
    if (order_.updates() > 1 && attributes.contains("rounds")) {
      attributes["rounds"] = std::int64_t{order_.updates()};
      attributes["round"] = std::int64_t{turn.instance};
    }
  }

  std::vector<ValueId> results_of(const Turn& turn, int m, const std::vector<ValueId>& inputs) {
    const PlacedStep& step = placed_.steps[turn.step];
    const Node& node = placed_.graph.node(step.node);
    const Signature whole = signature_of(placed_.graph, node);
    const Factors factors = node.op->factors(whole);
    const std::vector<int> at = coordinates(m);
    if (find_ring(factors, step.factors) < 0) {
      Attributes attributes = node.attributes;
      if (node.op->part != nullptr) {
        attributes = node.op->part(whole, ranges_at(factors, step.factors, placed_.axes(), at));
      }
      count_updates(turn, attributes);
      return builder_.add(node.op->name, inputs, attributes);
    }
    const std::size_t first = builder_.graph().nodes().size();
    std::vector<ValueId> results =
        add_ring(builder_, ring_at(whole, step.factors, placed_.axes(), at, place_.axis_ranks),
                 inputs, ring_tag_);
    name_pieces_from(first);
    return results;
  }
  /// Ranks compute different numbers of pieces. None may take the name of a value that all have.
  void name_pieces_from(std::size_t first) {
    for (std::size_t n = first; n < builder_.graph().nodes().size(); ++n) {
      const std::vector<ValueId> outputs = builder_.graph().nodes()[n].outputs;
      for (const ValueId output : outputs) {
        builder_.rename(output, "ring/" + builder_.graph().value(output).name);
      }
    }
  }

  const Placed& placed_;
  const RankPlace& place_;
  const RunOrder& order_;
  GraphBuilder builder_;
  RankGraph result_;
  std::int64_t ring_tag_ = kFirstRingTag;
};

}  // namespace

RankGraph lower(const Placed& placed, const RankPlace& place, const PipelineTable& table) {
  const RunOrder order = start_gathers_early(placed, RunOrder(placed, table));
  const Messages messages(placed, table, order);
  if (!placed.placements.op_stages.empty()) {
    require_progress(placed, table, order);
  }
  GraphSink sink(placed, place, order);
  write_rank({placed, table, order, messages}, place, sink);
  return std::move(sink).finish();
}

}  // namespace trireme::partition
