#include "partition/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "partition/buckets.h"
#include "partition/early_gathers.h"
#include "partition/progress.h"
#include "partition/rank_values.h"
#include "partition/ring.h"
#include "partition/run_order.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

/// Above the tags of messages between stages.
constexpr std::int64_t kFirstRingTag = 1 << 24;

class Lowering {
 public:
  Lowering(const Placed& placed, const RankPlace& place, const PipelineTable& table)
      : placed_(placed),
        place_(place),
        table_(table),
        builder_(placed.graph.name()),
        buckets_(builder_, placed.placements.bucket),
        order_(start_gathers_early(placed, RunOrder(placed, table))),
        values_(placed, place, table, order_, builder_) {}

  RankGraph run() {
    if (!placed_.placements.op_stages.empty()) {
      require_progress(placed_, table_, order_);
    }
    values_.add_leaves();
    const std::vector<std::vector<Turn>>& tasks = order_.at(place_.pipe);
    values_.receive_for(0);
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      // Receives for the next task overlap with this one.
      values_.receive_for(static_cast<int>(task) + 1);
      for (const Turn& turn : tasks[task]) {
        do_turn(turn);
      }
      flush();
    }
    finish();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::vector<int> coordinates(int m) const { return values_.coordinates(m); }
  [[nodiscard]] bool is_mine(int stage) const { return values_.is_mine(stage); }

  ValueId get(CopyId id, int number) {
    // Whoever sends this may be waiting for what is deferred here.
    const bool holds_up = awaited_ && values_.is_received({id, number});
    if (holds_up || deferred_.contains({id, number})) {
      flush();
    }
    return values_.get(id, number);
  }
  ValueId get(CopyId id, const Turn& turn) { return get(id, order_.instance_for(turn, id)); }
  void define(CopyId id, const Turn& turn, ValueId made) {
    values_.define({id, turn.instance}, made);
  }

  // Steps.

  void do_turn(const Turn& turn) {
    const PlacedStep& step = placed_.steps[turn.step];
    builder_.set_block(step.block);
    builder_.set_phase(step.phase);
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
    const std::vector<ValueId> outputs = results_of(step, turn, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Copy& made = placed_.copy(step.outputs[k]);
      const Shape expected =
          shape_at(made.placement, placed_.value(made).type.shape, placed_.axes(), coordinates(m));
      TRIREME_CHECK(builder_.shape(outputs[k]) == expected,
                    fmt::format("{} is {}, not {}", placed_.value(made).name,
                                to_text(builder_.shape(outputs[k])), to_text(expected)));
      builder_.rename(outputs[k], name_of(placed_.value(made), turn));
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      define(step.outputs[k], turn, outputs[k]);
    }
  }

  [[nodiscard]] std::string name_of(const Value& value, const Turn& turn) const {
    const int m = order_.micro_of(turn);
    const bool by_update = order_.updates() > 1 && placed_.steps[turn.step].phase == Phase::Update;
    return m >= 0      ? fmt::format("{}.m{}", value.name, m)
           : by_update ? fmt::format("{}.u{}", value.name, turn.instance)
                       : value.name;
  }
  /// Tells an optimizer that counts its steps which of how many updates this is.
  void count_updates(const Turn& turn, Attributes& attributes) const {
    if (order_.updates() > 1 && attributes.contains("rounds")) {
      attributes["rounds"] = std::int64_t{order_.updates()};
      attributes["round"] = std::int64_t{turn.instance};
    }
  }

  std::vector<ValueId> results_of(const PlacedStep& step, const Turn& turn,
                                  const std::vector<ValueId>& inputs) {
    const Node& node = placed_.graph.node(step.node);
    const Signature whole = signature_of(placed_.graph, node);
    const Factors factors = node.op->factors(whole);
    const std::vector<int> at = coordinates(order_.micro_of(turn));
    if (find_ring(factors, step.factors) < 0) {
      Attributes attributes = node.attributes;
      if (node.op->part != nullptr) {
        attributes = node.op->part(whole, ranges_at(factors, step.factors, placed_.axes(), at));
      }
      count_updates(turn, attributes);
      return builder_.add(node.op->name, inputs, attributes);
    }
    const std::size_t first = builder_.graph().nodes().size();
    const std::vector<ValueId> results =
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

  /// The size of a dimension in a placement without the innermost sharding axis.
  [[nodiscard]] std::int64_t size_before(const Copy& copy, std::size_t d, int m) const {
    const Placement::Dim& dim = copy.placement.dims[d];
    return block_at(dim, placed_.value(copy).type.shape.dims()[d], placed_.axes(), coordinates(m),
                    dim.axes.size() - 1)
        .length;
  }

  void change(const PlacedStep& step, const Turn& turn) {
    const int m = order_.micro_of(turn);
    const Change& what = step.change;
    const MeshAxis& axis = placed_.axes()[position_of(what.axis)];
    const Copy& from = placed_.copy(step.inputs[0]);
    const Copy& to = placed_.copy(step.outputs[0]);
    const std::int64_t index = place_.coordinates[position_of(what.axis)];
    const std::size_t d = position_of(std::max(what.dimension, 0));
    Attributes attributes{{"group", axis.name}, {"ranks", std::int64_t{axis.size}}};
    if (what.kind == ChangeKind::AllReduce) {
      attributes["reduction"] = std::string(to_text(from.placement.partial.at(what.axis)));
      defer({step.inputs[0], step.outputs[0], turn, attributes});
      return;
    }
    const ValueId x = get(step.inputs[0], turn);
    switch (what.kind) {
      case ChangeKind::Slice: {
        const Placement::Dim& dim = to.placement.dims[d];
        const std::int64_t size = placed_.value(to).type.shape.dims()[d];
        const IndexRange outer =
            block_at(dim, size, placed_.axes(), coordinates(m), dim.axes.size() - 1);
        const IndexRange own = block_at(dim, size, placed_.axes(), coordinates(m));
        define(step.outputs[0], turn, values_.slice(x, d, own.begin - outer.begin, own.length));
        return;
      }
      case ChangeKind::AllReduce:  // above
        return;
      case ChangeKind::AllGather:
        attributes["index"] = index;
        attributes["dimension"] = static_cast<std::int64_t>(d);
        attributes["size"] = size_before(from, d, m);
        attributes["unit"] = from.placement.dims[d].unit;
        define(step.outputs[0], turn, builder_.add("all_gather", {x}, attributes)[0]);
        return;
      case ChangeKind::ReduceScatter:
        attributes["index"] = index;
        attributes["dimension"] = static_cast<std::int64_t>(d);
        attributes["unit"] = to.placement.dims[d].unit;
        attributes["reduction"] = std::string(to_text(from.placement.partial.at(what.axis)));
        define(step.outputs[0], turn, builder_.add("reduce_scatter", {x}, attributes)[0]);
        return;
      case ChangeKind::AllToAll:
        attributes["index"] = index;
        attributes["from"] = static_cast<std::int64_t>(d);
        attributes["to"] = std::int64_t{what.to};
        attributes["size"] = size_before(from, d, m);
        attributes["from_unit"] = from.placement.dims[d].unit;
        attributes["to_unit"] = to.placement.dims[position_of(what.to)].unit;
        define(step.outputs[0], turn, builder_.add("all_to_all", {x}, attributes)[0]);
        return;
    }
  }

  /// A deferrable all-reduce. One along another axis, of a value that is itself deferred, waits for that.
  struct Deferred {
    CopyId from;
    CopyId to;
    Turn turn;
    Attributes attributes;
  };

  void defer(const Deferred& what) {
    const std::pair to{what.to, what.turn.instance};
    deferred_.insert(to);
    awaited_ = awaited_ || values_.is_sent({to.first, to.second});
    if (deferred_.contains({what.from, order_.instance_for(what.turn, what.from)})) {
      chained_.push_back(what);
      return;
    }
    const ValueId x = get(what.from, what.turn);
    const Buckets::Key key{
        .attributes = what.attributes, .dtype = builder_.type(x).dtype, .phase = phase_};
    buckets_.add(key, {x, [this, to](ValueId sum) {
                         deferred_.erase(to);
                         values_.define({to.first, to.second}, sum);
                       }});
  }

  void flush() {
    buckets_.flush();
    while (!chained_.empty()) {
      const std::vector<Deferred> next = std::exchange(chained_, {});
      for (const Deferred& what : next) {
        defer(what);
      }
      buckets_.flush();
    }
    awaited_ = false;
    builder_.set_phase(phase_);
  }

  /// Along micro-batches: sums, and rows of parts, are accumulated as they arrive.
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
    const Merge merge = placed_.copy(step.inputs[0]).placement.partial.at(step.change.axis);
    ValueId& sum = sums_[own];
    sum = !sum.valid() ? x : merged(to, merge, sum, x);
    if (turn.part == Turn::Part::AddLast) {
      values_.define(own, sum);
    }
  }

  /// Named after its value, and so the same on all ranks, whatever else they add.
  ValueId merged(CopyId to, Merge merge, ValueId a, ValueId b) {
    const ValueId made = builder_.add1(merge == Merge::Sum ? "add" : "maximum", {a, b});
    builder_.rename(made, placed_.value(to).name + ".merged");
    return made;
  }

  /// The copies of the model are added in the order of their numbers, so that all who have the sum have the same bits.
  void complete_in_time(const PlacedStep& step, const Turn& turn) {
    const CopyId to = step.outputs[0];
    if (step.change.kind == ChangeKind::AllGather) {
      std::vector<ValueId> parts;
      for (const auto& [number, part] : rows_[to]) {
        parts.push_back(part);
      }
      define(to, turn,
             builder_.add1("concat", parts, {{"axis", std::int64_t{step.change.dimension}}}));
      return;
    }
    const Merge merge = placed_.copy(step.inputs[0]).placement.partial.at(step.change.axis);
    ValueId all{};
    for (int number = 0; number < table_.copies; ++number) {
      if (order_.takes_part(turn.instance, number)) {
        if (awaited_ && values_.is_received({to, turn.instance, number})) {
          flush();
        }
        const ValueId part = values_.get_part({to, turn.instance, number});
        all = !all.valid() ? part : merged(to, merge, all, part);
      }
    }
    define(to, turn, merge == Merge::Sum ? as_mean(all, turn.instance) : all);
  }

  /// Sums over micro-batches are parts of a mean over the batch; an update that includes some of them treats these as
  /// all.
  ValueId as_mean(ValueId sum, int update) {
    if (order_.updates() == 1) {
      return sum;
    }
    std::int64_t all = 0;
    for (int other = 0; other < order_.updates(); ++other) {
      all += order_.weight(other);
    }
    return builder_.add1(
        "scale", {sum},
        {{"factor", static_cast<double>(all) / static_cast<double>(order_.weight(update))}});
  }

  void finish() {
    builder_.set_phase(Phase::Update);
    builder_.set_block(-1);
    phase_ = Phase::Update;
    for (std::size_t k = 0; k < placed_.updates.size(); ++k) {
      const Update& update = placed_.graph.updates()[k];
      const int home = placed_.home[update.target];
      if (is_mine(std::max(home, 0))) {
        const CopyId id = placed_.updates[k];
        builder_.update(
            builder_.graph().find(placed_.graph.value(update.target).name),
            get(id, order_.multiplicity(id) == Multiplicity::PerUpdate ? order_.updates() - 1 : 0));
      }
    }
    for (std::size_t k = 0; k < placed_.outputs.size(); ++k) {
      const CopyId id = placed_.outputs[k];
      const bool scalar = placed_.value(id).type.shape.rank() == 0;
      const std::string& name = placed_.graph.outputs()[k].name;
      if (scalar || (is_mine(order_.stage_of(id)) &&
                     order_.multiplicity(id) != Multiplicity::PerMicrobatch)) {
        builder_.output(name, output_of(id));
        result_.outputs[name] = placed_.copy(id).placement;
      }
    }
    result_.stored = values_.stored();
    result_.graph = builder_.finish();
  }

  /// A value computed per update is output as the mean over the examples that they include; integers as of the last
  /// update.
  ValueId output_of(CopyId id) {
    const int count = order_.multiplicity(id) == Multiplicity::PerUpdate ? order_.updates() : 1;
    const ValueId last = get(id, count - 1);
    if (count == 1 || !is_float(builder_.type(last).dtype)) {
      return last;
    }
    ValueId sum{};
    std::int64_t all = 0;
    for (int number = 0; number < count; ++number) {
      all += order_.weight(number);
      const ValueId share = builder_.add1("scale", {get(id, number)},
                                          {{"factor", static_cast<double>(order_.weight(number))}});
      sum = !sum.valid() ? share : builder_.add1("add", {sum, share});
    }
    const ValueId examples =
        builder_.add1("fill", {},
                      {{"value", static_cast<double>(all)},
                       {"shape", builder_.shape(sum).dims()},
                       {"dtype", std::string(to_text(builder_.type(sum).dtype))}});
    return builder_.add1("divide", {sum, examples});
  }

  const Placed& placed_;
  const RankPlace& place_;
  const PipelineTable& table_;
  GraphBuilder builder_;
  Buckets buckets_;
  RunOrder order_;
  RankValues values_;
  RankGraph result_;
  std::int64_t ring_tag_ = kFirstRingTag;
  Phase phase_ = Phase::Forward;
  std::set<std::pair<CopyId, int>> deferred_;
  bool awaited_ = false;  ///< whether another place reads something that is deferred
  std::vector<Deferred> chained_;
  std::map<Instance, ValueId> sums_;
  std::map<CopyId, std::map<int, ValueId>> rows_;
};

}  // namespace

RankGraph lower(const Placed& placed, const RankPlace& place, const PipelineTable& table) {
  return Lowering(placed, place, table).run();
}

}  // namespace trireme::partition
