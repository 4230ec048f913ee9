#include "partition/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "graph/op.h"
#include "partition/buckets.h"
#include "partition/rank_values.h"
#include "partition/task_steps.h"
#include "trireme/error.h"

namespace trireme::partition {
namespace {

/// The instance of what does not go by micro-batches.
constexpr int kOnce = -1;

class Lowering {
 public:
  Lowering(const Placed& placed, const RankPlace& place, const PipelineTable& table)
      : placed_(placed),
        place_(place),
        table_(table),
        builder_(placed.graph.name()),
        buckets_(builder_),
        task_steps_(placed, table),
        values_(placed, place, table, builder_) {}

  RankGraph run() {
    values_.add_leaves();
    for (const PipelineTask& task : table_.tasks.at(static_cast<std::size_t>(place_.pipe))) {
      do_task(task);
    }
    finish();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Axes& axes() const { return placed_.wishes.axes; }
  [[nodiscard]] int micro() const { return placed_.wishes.micro; }
  [[nodiscard]] const Copy& copy(CopyId id) const {
    return placed_.copies[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const Value& value(ValueId id) const { return placed_.graph.value(id); }
  [[nodiscard]] std::vector<int> coordinates(int m) const { return values_.coordinates(m); }
  [[nodiscard]] int instance_of(CopyId id, int m) const { return values_.instance_of(id, m); }
  [[nodiscard]] bool is_mine(int stage) const { return values_.is_mine(stage); }

  ValueId get(CopyId id, int m) {
    if (put_off_.contains({id, instance_of(id, m)})) {
      flush();
    }
    return values_.get(id, m);
  }
  void define(CopyId id, int m, ValueId made) { values_.define(id, m, made); }

  // Steps.

  void do_task(const PipelineTask& task) {
    const int done = ++tasks_done_[{task.stage, task.work}];
    const bool first = done == 1;
    const bool last = task.work == PipelineWork::Update || done == table_.microbatches;
    for (const std::size_t s : steps_of(task)) {
      const PlacedStep& step = placed_.steps[s];
      const bool by_micro = task_steps_.is_by_micro(step);
      if (by_micro || (task_steps_.is_late(s) ? last : first)) {
        builder_.set_block(step.block);
        builder_.set_phase(step.phase);
        phase_ = step.phase;
        do_step(step, by_micro ? task.microbatch : kOnce, last);
      }
    }
    flush();
  }

  /// The updates of all stages of a rank are done at the last of them, in the order of the graph: the norm of all
  /// gradients is needed for any.
  std::vector<std::size_t> steps_of(const PipelineTask& task) {
    if (task.work != PipelineWork::Update) {
      return task_steps_.of(task.stage, task.work);
    }
    std::vector<std::size_t> all;
    int stages = 0;
    for (int stage = 0; stage < table_.stages; ++stage) {
      if (is_mine(stage)) {
        ++stages;
        const std::vector<std::size_t> some = task_steps_.of(stage, task.work);
        all.insert(all.end(), some.begin(), some.end());
      }
    }
    std::ranges::sort(all);
    return ++updates_ == stages ? all : std::vector<std::size_t>{};
  }

  void do_step(const PlacedStep& step, int m, bool last) {
    if (step.node.valid()) {
      compute(step, m);
    } else if (step.change.axis == micro()) {
      change_in_time(step, m, last);
    } else {
      change(step, m);
    }
  }

  void compute(const PlacedStep& step, int m) {
    const Node& node = placed_.graph.node(step.node);
    const Signature whole = signature_of(placed_.graph, node);
    Attributes attributes = node.attributes;
    if (node.op->part != nullptr) {
      attributes = node.op->part(whole, ranges_of(node, step, m));
    }
    std::vector<ValueId> inputs;
    inputs.reserve(step.inputs.size());
    for (const CopyId input : step.inputs) {
      inputs.push_back(get(input, m));
    }
    const std::vector<ValueId> outputs = builder_.add(node.op->name, inputs, attributes);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Copy& made = copy(step.outputs[k]);
      const Shape expected =
          shape_at(made.placement, value(made.value).type.shape, axes(), coordinates(m));
      TRIREME_CHECK(builder_.shape(outputs[k]) == expected,
                    fmt::format("{} is {}, not {}", value(made.value).name,
                                to_text(builder_.shape(outputs[k])), to_text(expected)));
      const std::string& name = value(made.value).name;
      builder_.rename(outputs[k], m == kOnce ? name : fmt::format("{}.m{}", name, m));
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      define(step.outputs[k], m, outputs[k]);
    }
  }

  [[nodiscard]] std::vector<Stretch> ranges_of(const Node& node, const PlacedStep& step,
                                               int m) const {
    const Factors factors = factors_of(placed_.graph, node);
    std::vector<Stretch> ranges;
    ranges.reserve(factors.factors.size());
    for (std::size_t f = 0; f < factors.factors.size(); ++f) {
      const Stretch block =
          block_at(step.factors[f], factors.factors[f].size, axes(), coordinates(m));
      ranges.push_back({block.begin, block.length});
    }
    return ranges;
  }

  /// The size of a dimension in a placement without the innermost cut, which the axis is.
  [[nodiscard]] std::int64_t size_before(const Copy& cut, std::size_t d, int m) const {
    const Placement::Dim& dim = cut.placement.dims[d];
    return block_at(dim, value(cut.value).type.shape.dims()[d], axes(), coordinates(m),
                    dim.axes.size() - 1)
        .length;
  }

  void change(const PlacedStep& step, int m) {
    const Change& what = step.change;
    const MeshAxis& axis = axes()[static_cast<std::size_t>(what.axis)];
    const Copy& from = copy(step.inputs[0]);
    const Copy& to = copy(step.outputs[0]);
    const std::int64_t index = place_.coordinates[static_cast<std::size_t>(what.axis)];
    const auto d = static_cast<std::size_t>(std::max(what.dimension, 0));
    Attributes attributes{{"group", axis.name}, {"ranks", std::int64_t{axis.size}}};
    if (what.kind == ChangeKind::AllReduce) {
      attributes["reduction"] = std::string(to_text(from.placement.partial.at(what.axis)));
      put_off({step.inputs[0], step.outputs[0], m, attributes});
      return;
    }
    const ValueId x = get(step.inputs[0], m);
    switch (what.kind) {
      case ChangeKind::Slice: {
        const Placement::Dim& dim = to.placement.dims[d];
        const std::int64_t size = value(to.value).type.shape.dims()[d];
        const Stretch outer = block_at(dim, size, axes(), coordinates(m), dim.axes.size() - 1);
        const Stretch own = block_at(dim, size, axes(), coordinates(m));
        define(step.outputs[0], m, values_.slice(x, d, own.begin - outer.begin, own.length));
        return;
      }
      case ChangeKind::AllReduce:  // above
        return;
      case ChangeKind::AllGather:
        attributes["index"] = index;
        attributes["dimension"] = static_cast<std::int64_t>(d);
        attributes["size"] = size_before(from, d, m);
        attributes["unit"] = from.placement.dims[d].unit;
        define(step.outputs[0], m, builder_.add("all_gather", {x}, attributes)[0]);
        return;
      case ChangeKind::ReduceScatter:
        attributes["index"] = index;
        attributes["dimension"] = static_cast<std::int64_t>(d);
        attributes["unit"] = to.placement.dims[d].unit;
        attributes["reduction"] = std::string(to_text(from.placement.partial.at(what.axis)));
        define(step.outputs[0], m, builder_.add("reduce_scatter", {x}, attributes)[0]);
        return;
      case ChangeKind::AllToAll:
        attributes["index"] = index;
        attributes["from"] = static_cast<std::int64_t>(d);
        attributes["to"] = std::int64_t{what.to};
        attributes["size"] = size_before(from, d, m);
        attributes["from_unit"] = from.placement.dims[d].unit;
        attributes["to_unit"] = to.placement.dims[static_cast<std::size_t>(what.to)].unit;
        define(step.outputs[0], m, builder_.add("all_to_all", {x}, attributes)[0]);
        return;
    }
  }

  /// An all-reduce that can wait for others. One along another axis of what is itself put off waits for that.
  struct PutOff {
    CopyId from;
    CopyId to;
    int m;
    Attributes attributes;
  };

  void put_off(const PutOff& what) {
    const int instance = instance_of(what.to, what.m);
    put_off_.insert({what.to, instance});
    if (put_off_.contains({what.from, instance_of(what.from, what.m)})) {
      chained_.push_back(what);
      return;
    }
    const ValueId x = get(what.from, what.m);
    const Buckets::Key key{
        .attributes = what.attributes, .dtype = builder_.type(x).dtype, .phase = phase_};
    buckets_.add(key, {x, [this, to = what.to, instance](ValueId sum) {
                         put_off_.erase({to, instance});
                         define(to, instance, sum);
                       }});
  }

  void flush() {
    buckets_.flush();
    while (!chained_.empty()) {
      const std::vector<PutOff> next = std::exchange(chained_, {});
      for (const PutOff& what : next) {
        put_off(what);
      }
      buckets_.flush();
    }
    builder_.set_phase(phase_);
  }

  /// Along micro-batches: sums are built up as they come, and so are rows of parts.
  void change_in_time(const PlacedStep& step, int m, bool last) {
    const CopyId to = step.outputs[0];
    if (step.change.kind == ChangeKind::Slice) {
      const auto d = static_cast<std::size_t>(step.change.dimension);
      const Placement::Dim& dim = copy(to).placement.dims[d];
      const std::int64_t size = value(copy(to).value).type.shape.dims()[d];
      const Stretch outer = block_at(dim, size, axes(), coordinates(m), dim.axes.size() - 1);
      const Stretch own = block_at(dim, size, axes(), coordinates(m));
      define(to, m, values_.slice(get(step.inputs[0], m), d, own.begin - outer.begin, own.length));
      return;
    }
    const ValueId x = get(step.inputs[0], m);
    if (step.change.kind == ChangeKind::AllReduce) {
      const Merge merge = copy(step.inputs[0]).placement.partial.at(step.change.axis);
      ValueId& sum = sums_[to];
      sum = !sum.valid() ? x : builder_.add1(merge == Merge::Sum ? "add" : "maximum", {sum, x});
      if (last) {
        define(to, kOnce, sum);
      }
      return;
    }
    if (step.change.kind == ChangeKind::AllGather) {
      rows_[to][m] = x;
      if (last) {
        std::vector<ValueId> parts;
        for (const auto& [number, part] : rows_[to]) {
          parts.push_back(part);
        }
        define(to, kOnce,
               builder_.add1("concat", parts, {{"axis", std::int64_t{step.change.dimension}}}));
      }
      return;
    }
    throw Error(ErrorKind::Usage, fmt::format("{} cannot be exchanged between micro-batches",
                                              value(copy(to).value).name));
  }

  void finish() {
    builder_.set_phase(Phase::Update);
    builder_.set_block(-1);
    phase_ = Phase::Update;
    for (std::size_t k = 0; k < placed_.updates.size(); ++k) {
      const Update& update = placed_.graph.updates()[k];
      const int home = placed_.home[static_cast<std::size_t>(update.target.index)];
      if (is_mine(std::max(home, 0))) {
        builder_.update(builder_.graph().find(value(update.target).name),
                        get(placed_.updates[k], kOnce));
      }
    }
    for (std::size_t k = 0; k < placed_.outputs.size(); ++k) {
      const CopyId id = placed_.outputs[k];
      const bool scalar = value(copy(id).value).type.shape.rank() == 0;
      const std::string& name = placed_.graph.outputs()[k].name;
      if (scalar || (is_mine(values_.stage_of(id)) && !placed_.is_by_micro(id))) {
        builder_.output(name, get(id, kOnce));
        result_.outputs[name] = copy(id).placement;
      }
    }
    result_.stored = values_.stored();
    result_.graph = builder_.finish();
  }

  const Placed& placed_;
  const RankPlace& place_;
  const PipelineTable& table_;
  GraphBuilder builder_;
  Buckets buckets_;
  TaskSteps task_steps_;
  RankValues values_;
  RankGraph result_;
  int updates_ = 0;  ///< tasks so far
  Phase phase_ = Phase::Forward;
  std::map<std::pair<int, PipelineWork>, int> tasks_done_;
  std::set<std::pair<CopyId, int>> put_off_;
  std::vector<PutOff> chained_;
  std::map<CopyId, ValueId> sums_;
  std::map<CopyId, std::map<int, ValueId>> rows_;
};

void check_table(const Placed& placed, const PipelineTable& table) {
  const int micro = placed.wishes.micro;
  const int batches = micro < 0 ? 1 : placed.wishes.axes[static_cast<std::size_t>(micro)].size;
  if (table.stages != placed.stage_count || table.microbatches != batches) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the table {} is for {} stages and {} micro-batches, the plan has {} "
                    "and {}",
                    table.name, table.stages, table.microbatches, placed.stage_count, batches));
  }
  if (table.copies != 1 || table.weights != WeightVersions::Single) {
    throw Error(ErrorKind::Usage,
                fmt::format("the table {} keeps several versions of the weights, or several "
                            "copies of the model; it can be timed, but not run yet",
                            table.name));
  }
}

}  // namespace

RankGraph lower(const Placed& placed, const RankPlace& place, const PipelineTable& table) {
  check_table(placed, table);
  return Lowering(placed, place, table).run();
}

}  // namespace trireme::partition
