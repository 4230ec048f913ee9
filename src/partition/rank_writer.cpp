#include "partition/rank_writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme::partition {
namespace {

constexpr ValueId kMissing{-1};
constexpr ValueId kDeferred{-2};  ///< an all-reduce that waits in a bucket

/// Throws Error(Usage): the table reads the copy before it exists.
[[noreturn]] void refuse_missing(const SharedOrder& shared, CopyId id) {
  const std::string& name = shared.placed.value(id).name;
  // Of the models here, only that loss is a mean over all micro-batches; a graph of a program's own may have others.
  const std::string what = name.starts_with("scale") ? "the load-balancing loss" : name;
  throw Error(
      ErrorKind::Usage,
      fmt::format("--schedule {} cannot run: {} needs every micro-batch's forward pass first; use "
                  "--schedule gpipe or --experts …,per=microbatch",
                  shared.table.name, what));
}

/// Throws Error(Usage): the table cannot merge the copy over micro-batches.
[[noreturn]] void refuse_merge(const SharedOrder& shared, CopyId id) {
  throw Error(ErrorKind::Usage,
              fmt::format("{} cannot be exchanged between micro-batches by the table {}",
                          shared.placed.value(id).name, shared.table.name));
}

/// The values of a rank so far, by copy and instance.
class MadeValues {
 public:
  MadeValues(const Placed& placed, const PipelineTable& table, const RunOrder& order) {
    std::size_t slots = 0;
    for (CopyId id = 0; id < placed.copies.count(); ++id) {
      first_.push_back(slots);
      slots += instances(order, table, id);
    }
    made_.assign(slots, kMissing);
    is_received_.assign(slots, false);
  }

  ValueId& at(CopyId id, int number) { return made_[slot(id, number)]; }
  [[nodiscard]] bool is_received(CopyId id, int number) const {
    return is_received_[slot(id, number)];
  }
  void receive(const Instance& what, ValueId value) {
    if (what.part >= 0) {
      parts_[what] = value;
      received_parts_.insert(what);
    } else {
      at(what.id, what.number) = value;
      is_received_[slot(what.id, what.number)] = true;
    }
  }

  /// The term of a sum that a copy of the model has.
  ValueId& part(const Instance& what) { return parts_[what]; }
  [[nodiscard]] bool is_received(const Instance& part) const {
    return received_parts_.contains(part);
  }

 private:
  static int instances(const RunOrder& order, const PipelineTable& table, CopyId id) {
    switch (order.multiplicity(id)) {
      case Multiplicity::Once:
        return 1;
      case Multiplicity::PerMicrobatch:
        return table.microbatches;
      case Multiplicity::PerVersion:
        return order.updates() + 1;
      case Multiplicity::PerUpdate:
        return order.updates();
    }
    return 1;
  }
  [[nodiscard]] std::size_t slot(CopyId id, int number) const { return first_[id] + number; }

  IndexedVector<CopyId, std::size_t> first_;  ///< its first slot
  std::vector<ValueId> made_;                 ///< by slot
  std::vector<bool> is_received_;             ///< likewise: from another place
  std::map<Instance, ValueId> parts_;
  std::set<Instance> received_parts_;
};

class RankWriter {
 public:
  RankWriter(const SharedOrder& shared, const RankPlace& place, RankSink& sink)
      : shared_(shared),
        placed_(shared.placed),
        table_(shared.table),
        order_(shared.order),
        place_(place),
        sink_(sink),
        made_(placed_, table_, order_),
        buckets_(placed_.placements.bucket) {}

  void run() {
    add_leaves();
    const std::vector<std::vector<Turn>>& tasks = order_.at(place_.pipe);
    receive_for(0);
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      // Receives for the next task overlap with this one.
      receive_for(static_cast<int>(task) + 1);
      for (const Turn& turn : tasks[task]) {
        do_turn(turn);
      }
      flush();
    }
    finish();
  }

 private:
  // Values.

  [[nodiscard]] bool is_mine(int stage) const { return order_.has_stage(place_.pipe, stage); }
  [[nodiscard]] int micro_of(const Instance& what) const {
    return order_.multiplicity(what.id) == Multiplicity::PerMicrobatch ? what.number : -1;
  }

  ValueId get(CopyId id, int number) {
    // The sender may be waiting for the work that is deferred here.
    const bool holds_up = awaited_ && made_.is_received(id, number);
    if (holds_up || made_.at(id, number) == kDeferred) {
      flush();
    }
    ValueId& found = made_.at(id, number);
    if (found == kMissing) {
      found = input_part({id, number});
    }
    return found;
  }
  ValueId get(CopyId id, const Turn& turn) { return get(id, order_.instance_for(turn, id)); }

  ValueId input_part(const Instance& what) {
    if (!placed_.is_input(what.id)) {
      refuse_missing(shared_, what.id);
    }
    const auto [it, is_new] = inputs_.try_emplace(what.id);
    if (is_new) {
      it->second = sink_.input(what.id);
    }
    const int m = micro_of(what);
    return m < 0 ? it->second : sink_.input_part(what.id, m, it->second);
  }

  /// Records that it exists, and sends it to its readers.
  void define(const Instance& what, ValueId value) {
    (what.part >= 0 ? made_.part(what) : made_.at(what.id, what.number)) = value;
    send(what, value);
    const CopyId leaf = what.part < 0 ? order_.leaf_of(what.id) : -1;
    if (leaf >= 0) {
      define({leaf, what.number + 1}, value);  // its next version
    }
  }
  void define(CopyId id, const Turn& turn, ValueId value) { define({id, turn.instance}, value); }

  // Leaves and messages.

  /// The parameters and states of this rank's stages, which go to their readers elsewhere.
  void add_leaves() {
    std::vector<CopyId> leaves;
    for (CopyId id = 0; id < placed_.copies.count(); ++id) {
      if (placed_.copy(id).step < 0 && !placed_.is_input(id) && is_mine(order_.stage_of(id))) {
        made_.at(id, 0) = sink_.leaf(id);
        leaf_of_[placed_.copy(id).value] = made_.at(id, 0);
        leaves.push_back(id);
      }
    }
    for (const CopyId id : leaves) {
      send({id, 0}, made_.at(id, 0));
    }
  }

  void send(const Instance& what, ValueId value) {
    for (const Message& message : shared_.messages.sent(place_.pipe, what)) {
      sink_.send(message, value);
    }
  }

  /// Posts receives for everything that a task, numbered as in the table, first reads from other places.
  void receive_for(int task) {
    for (const Message& message : shared_.messages.received(place_.pipe, task)) {
      made_.receive(message.what, sink_.receive(message, micro_of(message.what)));
    }
  }

  // Steps.

  void set_phase(Phase phase) {
    phase_ = phase;
    sink_.set_phase(phase);
  }

  void do_turn(const Turn& turn) {
    const PlacedStep& step = placed_.steps[turn.step];
    sink_.set_block(step.block);
    set_phase(step.phase);
    if (turn.adds()) {
      add_in_time(step, turn);
    } else if (turn.part == Turn::Part::Complete) {
      complete_in_time(step, turn);
    } else if (step.node.valid()) {
      compute(step, turn);
    } else if (step.change.kind == ChangeKind::AllReduce) {
      defer({&step, turn});
    } else {
      const ValueId x = get(step.inputs[0], turn);
      define(step.outputs[0], turn, sink_.reshard(step, order_.micro_of(turn), x));
    }
  }

  void compute(const PlacedStep& step, const Turn& turn) {
    std::vector<ValueId> inputs;
    inputs.reserve(step.inputs.size());
    for (const CopyId input : step.inputs) {
      inputs.push_back(get(input, turn));
    }
    const std::vector<ValueId> outputs = sink_.compute(turn, order_.micro_of(turn), inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      define(step.outputs[k], turn, outputs[k]);
    }
  }

  // All-reduces.

  struct Deferred {
    const PlacedStep* step = nullptr;
    Turn turn{};
  };

  [[nodiscard]] Merge merge_of(const PlacedStep& step) const {
    return placed_.copy(step.inputs[0]).placement.partial.at(step.change.axis);
  }

  /// An all-reduce along another axis, of a value that is itself deferred, waits for that.
  void defer(const Deferred& what) {
    const PlacedStep& step = *what.step;
    const CopyId from = step.inputs[0];
    const Instance sum{step.outputs[0], what.turn.instance};
    made_.at(sum.id, sum.number) = kDeferred;
    awaited_ = awaited_ || !shared_.messages.sent(place_.pipe, sum).empty();
    if (made_.at(from, order_.instance_for(what.turn, from)) == kDeferred) {
      chained_.push_back(what);
      return;
    }
    const ValueId x = get(from, what.turn);
    const Bucket::Key key{.axis = step.change.axis,
                          .merge = merge_of(step),
                          .dtype = placed_.value(from).type.dtype,
                          .phase = phase_};
    if (const auto bucket = buckets_.add(key, {x, sum}, sink_.bytes_of(x))) {
      reduce(*bucket);
    }
  }

  void reduce(const Bucket& bucket) {
    sink_.set_phase(bucket.key.phase);
    sink_.all_reduce(
        bucket, [&](std::size_t member, ValueId sum) { define(bucket.members[member].sum, sum); });
  }
  void reduce_all() {
    for (const Bucket& bucket : buckets_.take()) {
      reduce(bucket);
    }
  }

  void flush() {
    reduce_all();
    while (!chained_.empty()) {
      for (const Deferred& what : std::exchange(chained_, {})) {
        defer(what);
      }
      reduce_all();
    }
    awaited_ = false;
    sink_.set_phase(phase_);
  }

  // Micro-batches.

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
      refuse_merge(shared_, to);
    }
    ValueId& sum = sums_.try_emplace(own).first->second;
    sum = sum.valid() ? sink_.merge(to, merge_of(step), sum, x) : x;
    if (turn.part == Turn::Part::AddLast) {
      define(own, sum);
    }
  }

  void complete_in_time(const PlacedStep& step, const Turn& turn) {
    const CopyId to = step.outputs[0];
    if (step.change.kind == ChangeKind::AllGather) {
      std::vector<ValueId> parts;
      for (const auto& [number, part] : rows_[to]) {
        parts.push_back(part);
      }
      define(to, turn, sink_.concat(to, step.change.dimension, parts));
      return;
    }
    const Merge merge = merge_of(step);
    const ValueId all = merged_copies({to, turn.instance}, merge);
    define(to, turn, merge == Merge::Sum ? as_mean(all, turn.instance) : all);
  }

  /// The copies of the model are merged in the order of their numbers, so that all who have the sum have the same bits.
  ValueId merged_copies(const Instance& what, Merge merge) {
    ValueId all{};
    for (int copy = 0; copy < table_.copies; ++copy) {
      if (!order_.takes_part(what.number, copy)) {
        continue;
      }
      const Instance own{what.id, what.number, copy};
      if (awaited_ && made_.is_received(own)) {
        flush();
      }
      const ValueId part = made_.part(own);
      all = all.valid() ? sink_.merge(what.id, merge, all, part) : part;
    }
    return all;
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
    return sink_.scale(sum, static_cast<double>(all) / static_cast<double>(order_.weight(update)));
  }

  // The end.

  void finish() {
    sink_.set_block(-1);
    set_phase(Phase::Update);
    for (std::size_t k = 0; k < placed_.updates.size(); ++k) {
      const ValueId target = placed_.graph.updates()[k].target;
      if (is_mine(std::max(placed_.home[target], 0))) {
        const CopyId id = placed_.updates[k];
        sink_.update(leaf_of_.at(target), get(id, instances_at_end(id) - 1));
      }
    }
    for (std::size_t k = 0; k < placed_.outputs.size(); ++k) {
      const CopyId id = placed_.outputs[k];
      const bool scalar = placed_.value(id).type.shape.rank() == 0;
      if (scalar || (is_mine(order_.stage_of(id)) &&
                     order_.multiplicity(id) != Multiplicity::PerMicrobatch)) {
        sink_.output(k, output_of(id));
      }
    }
  }
  [[nodiscard]] int instances_at_end(CopyId id) const {
    return order_.multiplicity(id) == Multiplicity::PerUpdate ? order_.updates() : 1;
  }

  /// A value computed per update is output as the mean over the examples that they include; integers as of the last
  /// update.
  ValueId output_of(CopyId id) {
    const int count = instances_at_end(id);
    const ValueId last = get(id, count - 1);
    if (count == 1 || !is_float(placed_.value(id).type.dtype)) {
      return last;
    }
    std::vector<ValueId> values;
    std::vector<std::int64_t> weights;
    for (int number = 0; number < count; ++number) {
      values.push_back(get(id, number));
      weights.push_back(order_.weight(number));
    }
    return sink_.mean(values, weights);
  }

  const SharedOrder& shared_;
  const Placed& placed_;
  const PipelineTable& table_;
  const RunOrder& order_;
  const RankPlace& place_;
  RankSink& sink_;
  MadeValues made_;
  Buckets buckets_;
  Phase phase_ = Phase::Forward;
  bool awaited_ = false;  ///< whether another place reads something that is deferred
  std::vector<Deferred> chained_;
  std::map<Instance, ValueId> sums_;  ///< so far
  std::map<CopyId, std::map<int, ValueId>> rows_;
  std::map<CopyId, ValueId> inputs_;
  std::map<ValueId, ValueId> leaf_of_;  ///< by value of the whole graph
};

}  // namespace

void write_rank(const SharedOrder& shared, const RankPlace& place, RankSink& sink) {
  RankWriter(shared, place, sink).run();
}

}  // namespace trireme::partition
