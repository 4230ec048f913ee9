#include "partition/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "graph/op.h"
#include "partition/buckets.h"
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
        buckets_(builder_) {}

  RankGraph run() {
    check_table();
    for (const std::vector<PipelineTask>& tasks : table_.tasks) {
      for (const PipelineTask& task : tasks) {
        splits_backward_ = splits_backward_ || task.work == PipelineWork::BackwardInput;
      }
    }
    sort_steps();
    find_needs();
    add_leaves();
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
  [[nodiscard]] int pipe_of(int stage) const { return table_.rank_of(0, stage); }
  [[nodiscard]] bool is_mine(int stage) const { return pipe_of(stage) == place_.pipe; }
  [[nodiscard]] int instance_of(CopyId id, int m) const {
    return placed_.is_by_micro(id) ? m : kOnce;
  }
  [[nodiscard]] std::vector<int> coordinates(int m) const {
    std::vector<int> all = place_.coordinates;
    if (micro() >= 0 && m >= 0) {
      all[static_cast<std::size_t>(micro())] = m;
    }
    return all;
  }

  void check_table() const {
    const int batches = micro() < 0 ? 1 : axes()[static_cast<std::size_t>(micro())].size;
    if (table_.stages != placed_.stage_count || table_.microbatches != batches) {
      throw Error(ErrorKind::Usage,
                  fmt::format("the table {} is for {} stages and {} micro-batches, the plan has {} "
                              "and {}",
                              table_.name, table_.stages, table_.microbatches, placed_.stage_count,
                              batches));
    }
    if (table_.copies != 1 || table_.weights != WeightVersions::Single) {
      throw Error(ErrorKind::Usage,
                  fmt::format("the table {} keeps several versions of the weights, or several "
                              "copies of the model; it can be timed, but not run yet",
                              table_.name));
    }
  }

  // Which steps belong to a task.

  [[nodiscard]] PipelineWork work_of(std::size_t s) const {
    switch (placed_.steps[s].phase) {
      case Phase::Forward:
        return PipelineWork::Forward;
      case Phase::Update:
        return PipelineWork::Update;
      case Phase::Recompute:
      case Phase::Backward:
        break;
    }
    if (!splits_backward_) {
      return PipelineWork::Backward;
    }
    return for_weights_[s] ? PipelineWork::BackwardWeight : PipelineWork::BackwardInput;
  }

  [[nodiscard]] bool is_by_micro(const PlacedStep& step) const {
    const auto by = [&](CopyId id) { return placed_.is_by_micro(id); };
    return std::ranges::any_of(step.inputs, by) || std::ranges::any_of(step.outputs, by);
  }
  [[nodiscard]] bool merges_micro(const PlacedStep& step) const {
    return !step.node.valid() && step.change.axis == micro() &&
           step.change.kind != ChangeKind::Slice;
  }

  void sort_steps() {
    const std::size_t count = placed_.steps.size();
    find_weight_steps();
    late_.assign(count, false);
    for (std::size_t s = 0; s < count; ++s) {
      const PlacedStep& step = placed_.steps[s];
      late_[s] =
          merges_micro(step) || std::ranges::any_of(step.inputs, [&](CopyId id) {
            const std::int32_t made_by = copy(id).step;
            return made_by >= 0 && !placed_.is_by_micro(id) &&
                   late_[static_cast<std::size_t>(made_by)] &&
                   (step.phase == Phase::Forward ||
                    placed_.steps[static_cast<std::size_t>(made_by)].phase != Phase::Forward);
          });
      by_task_[{step.stage, work_of(s)}].push_back(s);
    }
  }

  /// Steps of the backward whose results go into updates alone, with the changes on the way there.
  void find_weight_steps() {
    const std::size_t count = placed_.steps.size();
    for_weights_.assign(count, true);
    std::vector<bool> is_read(count, false);
    for (std::size_t s = count; s-- > 0;) {
      const PlacedStep& step = placed_.steps[s];
      // A change that nobody reads any more goes with the input's half.
      for_weights_[s] = for_weights_[s] && is_read[s];
      const bool harmless = step.phase == Phase::Update || (!step.node.valid() && for_weights_[s]);
      for (const CopyId input : step.inputs) {
        if (copy(input).step >= 0) {
          const auto made_by = static_cast<std::size_t>(copy(input).step);
          is_read[made_by] = true;
          for_weights_[made_by] = for_weights_[made_by] && harmless;
        }
      }
    }
  }

  // Exchanges between stages.

  [[nodiscard]] int stage_of(CopyId id) const {
    const Copy& one = copy(id);
    return one.step >= 0 ? placed_.steps[static_cast<std::size_t>(one.step)].stage
                         : std::max(placed_.home[static_cast<std::size_t>(one.value.index)], 0);
  }
  [[nodiscard]] bool is_input(CopyId id) const {
    return copy(id).step < 0 && value(copy(id).value).origin == Origin::Input;
  }

  void find_needs() {
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

  [[nodiscard]] std::int64_t tag_of(CopyId id, int instance) const {
    return static_cast<std::int64_t>(id) * (table_.microbatches + 1) + instance + 1;
  }

  void send(CopyId id, int instance) {
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

  ValueId receive(CopyId id, int instance) {
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

  void add_leaves() {
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
      result_.stored[leaf.name] = copy(id).placement;
    }
    for (std::size_t c = 0; c < placed_.copies.size(); ++c) {
      const auto id = static_cast<CopyId>(c);
      if (made_.contains({id, kOnce})) {
        send(id, kOnce);
      }
    }
  }

  /// The part of an input that this rank has, of all micro-batches, one after the other.
  ValueId input_leaf(CopyId id) {
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
    result_.stored[leaf.name] = one.placement;
    return made;
  }
  [[nodiscard]] std::int64_t part_length(const Copy& one, std::size_t d, int m) const {
    return block_at(one.placement.dims[d], value(one.value).type.shape.dims()[d], axes(),
                    coordinates(m))
        .length;
  }

  ValueId input_part(CopyId id, int m) {
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

  ValueId slice(ValueId x, std::size_t dimension, std::int64_t begin, std::int64_t length) {
    std::vector<std::int64_t> from(builder_.shape(x).dims().size(), 0);
    std::vector<std::int64_t> to = builder_.shape(x).dims();
    if (begin == 0 && length == to[dimension]) {
      return x;
    }
    from[dimension] = begin;
    to[dimension] = begin + length;
    return builder_.add1("slice", {x}, {{"begin", from}, {"end", to}});
  }

  ValueId get(CopyId id, int m) {
    const int instance = instance_of(id, m);
    const auto it = made_.find({id, instance});
    if (it != made_.end()) {
      return it->second;
    }
    if (is_input(id)) {
      return made_[{id, instance}] = input_part(id, instance);
    }
    if (put_off_.contains({id, instance})) {
      flush();
      return made_.at({id, instance});
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

  void define(CopyId id, int m, ValueId made) {
    const int instance = instance_of(id, m);
    made_[{id, instance}] = made;
    send(id, instance);
  }

  // Steps.

  void do_task(const PipelineTask& task) {
    const int done = ++tasks_done_[{task.stage, task.work}];
    const bool first = done == 1;
    const bool last = task.work == PipelineWork::Update || done == table_.microbatches;
    for (const std::size_t s : steps_of(task)) {
      const PlacedStep& step = placed_.steps[s];
      const bool by_micro = is_by_micro(step);
      if (by_micro || (late_[s] ? last : first)) {
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
      return by_task_[{task.stage, task.work}];
    }
    std::vector<std::size_t> all;
    int stages = 0;
    for (int stage = 0; stage < table_.stages; ++stage) {
      if (is_mine(stage)) {
        ++stages;
        const std::vector<std::size_t>& some = by_task_[{stage, task.work}];
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
        define(step.outputs[0], m, slice(x, d, own.begin - outer.begin, own.length));
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
      define(to, m, slice(get(step.inputs[0], m), d, own.begin - outer.begin, own.length));
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
      if (scalar || (is_mine(stage_of(id)) && !placed_.is_by_micro(id))) {
        builder_.output(name, get(id, kOnce));
        result_.outputs[name] = copy(id).placement;
      }
    }
    result_.graph = builder_.finish();
  }

  const Placed& placed_;
  const RankPlace& place_;
  const PipelineTable& table_;
  GraphBuilder builder_;
  Buckets buckets_;
  RankGraph result_;
  bool splits_backward_ = false;
  int updates_ = 0;  ///< tasks so far
  Phase phase_ = Phase::Forward;
  std::vector<bool>
      late_;  ///< by step: it needs all micro-batches of the forward, or of the backward
  std::vector<bool> for_weights_;  ///< by step
  std::map<std::pair<int, PipelineWork>, std::vector<std::size_t>> by_task_;
  std::map<std::pair<int, PipelineWork>, int> tasks_done_;
  std::map<CopyId, std::set<int>> needs_;  ///< other places in the pipeline that read it
  std::map<std::pair<CopyId, int>, ValueId> made_;
  std::set<std::pair<CopyId, int>> put_off_;
  std::vector<PutOff> chained_;
  std::map<CopyId, ValueId> inputs_;
  std::map<CopyId, ValueId> sums_;
  std::map<CopyId, std::map<int, ValueId>> rows_;
};

}  // namespace

RankGraph lower(const Placed& placed, const RankPlace& place, const PipelineTable& table) {
  return Lowering(placed, place, table).run();
}

}  // namespace trireme::partition
