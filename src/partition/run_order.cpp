#include "partition/run_order.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::partition {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::Usage, reason);
}

const Placed& checked(const Placed& placed, const PipelineTable& table) {
  const int micro = placed.placements.micro;
  const int batches = micro < 0 ? 1 : placed.placements.axes[micro].size;
  if (table.stages != placed.stage_count || table.microbatches != batches) {
    refuse(fmt::format("the table {} is for {} stages and {} micro-batches, the plan has {} and {}",
                       table.name, table.stages, table.microbatches, placed.stage_count, batches));
  }
  require_valid(table, ErrorKind::Usage, fmt::format("the table {}", table.name));
  return placed;
}

}  // namespace

RunOrder::RunOrder(const Placed& placed, const PipelineTable& table)
    : placed_(checked(placed, table)), table_(table), index_(table), task_steps_(placed, table) {
  versions_ = weight_versions(table);
  count_updates();
  find_weights();
  find_next();
  find_multiplicities();
  find_joint();
  turns_.resize(table.tasks.size());
  for (int pipe = 0; pipe < turns_.count(); ++pipe) {
    for (const PipelineTask& task : table.tasks[pipe]) {
      std::vector<Turn>& turns = turns_[pipe].emplace_back();
      if (task.work == PipelineWork::Update) {
        add_updates(pipe, task, turns);
      } else {
        add_work(pipe, task, turns);
      }
    }
  }
}

// Updates and the micro-batches they include.

void RunOrder::count_updates() {
  for (int m = 0; m < table_.microbatches; ++m) {
    PipelineTask any;
    any.microbatch = m;
    update_of_.push_back(index_.updates_before(any));
    ++members_[{index_.copy_of(m), update_of_.back()}];
  }
  updates_ = update_of_.back() + 1;
  for (int copy = 0; copy < table_.copies; ++copy) {
    if (!takes_part(0, copy)) {
      refuse(
          fmt::format("the table {} has a copy of the model that no micro-batch goes through; "
                      "make more micro-batches",
                      table_.name));
    }
  }
  if (table_.copies > 1 && updates_ > 1) {
    refuse(
        fmt::format("the table {} has {} copies of the model and {} updates; several of both "
                    "cannot be run",
                    table_.name, table_.copies, updates_));
  }
}

/// Micro-batches may differ in size: their weight in a mean is their share of the examples.
void RunOrder::find_weights() {
  weights_.assign(updates_, 0);
  const auto sharded = std::ranges::find_if(placed_.copies, [&](const Copy& one) {
    return one.step < 0 && placed_.micro() >= 0 && placed_.value(one).origin == Origin::Input &&
           one.placement.dimension_of(placed_.micro()) >= 0;
  });
  for (int m = 0; m < table_.microbatches; ++m) {
    std::int64_t examples = 1;
    if (sharded != placed_.copies.end()) {
      const int d = sharded->placement.dimension_of(placed_.micro());
      std::vector<int> coordinates(placed_.axes().size(), 0);
      coordinates[placed_.micro()] = m;
      examples = block_at(sharded->placement.dims[d], placed_.value(*sharded).type.shape.dim(d),
                          placed_.axes(), coordinates, 1)
                     .length;
    }
    weights_[update_of(m)] += examples;
  }
}

void RunOrder::find_next() {
  std::map<ValueId, CopyId> leaves;
  for (CopyId id = 0; id < placed_.copies.count(); ++id) {
    if (placed_.copy(id).step < 0) {
      leaves[placed_.copy(id).value] = id;
    }
  }
  for (std::size_t k = 0; k < placed_.updates.size(); ++k) {
    const CopyId leaf = leaves.at(placed_.graph.updates()[k].target);
    next_[leaf] = placed_.updates[k];
    leaf_[placed_.updates[k]] = leaf;
  }
}

CopyId RunOrder::next_of(CopyId leaf) const {
  const auto it = next_.find(leaf);
  return it == next_.end() ? -1 : it->second;
}
CopyId RunOrder::leaf_of(CopyId next) const {
  const auto it = leaf_.find(next);
  return it == leaf_.end() ? -1 : it->second;
}

// How often.

int RunOrder::stage_of(CopyId id) const {
  return placed_.stage_of(placed_.copy(id));
}

void RunOrder::find_multiplicities() {
  multiplicity_.assign(placed_.copies.size(), Multiplicity::Once);
  home_.assign(placed_.copies.size(), 0);
  for (CopyId id = 0; id < placed_.copies.count(); ++id) {
    if (placed_.copy(id).step < 0) {
      multiplicity_[id] = placed_.is_by_micro(id) ? Multiplicity::PerMicrobatch
                          : next_of(id) >= 0      ? Multiplicity::PerVersion
                                                  : Multiplicity::Once;
      home_[id] = stage_of(id);
    }
  }
  for (std::size_t s = 0; s < placed_.steps.size(); ++s) {
    const PlacedStep& step = placed_.steps[s];
    step_multiplicity_.push_back(multiplicity_of_step(s));
    check_reads(s);
    const int home = step_multiplicity_[s] == Multiplicity::PerVersion ? home_of_inputs(step) : 0;
    for (const CopyId output : step.outputs) {
      multiplicity_[output] = step_multiplicity_[s];
      home_[output] = home;
    }
  }
}

Multiplicity RunOrder::multiplicity_of_step(std::size_t step) const {
  const PlacedStep& placed = placed_.steps[step];
  const auto reads = [&](Multiplicity wanted) {
    return std::ranges::any_of(placed.inputs,
                               [&](CopyId id) { return this->multiplicity(id) == wanted; });
  };
  if (task_steps_.merges_micro(placed)) {
    return Multiplicity::PerUpdate;
  }
  if (task_steps_.is_by_micro(placed)) {
    return Multiplicity::PerMicrobatch;
  }
  if (placed.phase == Phase::Update || reads(Multiplicity::PerUpdate)) {
    return Multiplicity::PerUpdate;
  }
  return reads(Multiplicity::PerVersion) ? Multiplicity::PerVersion : Multiplicity::Once;
}

int RunOrder::home_of_inputs(const PlacedStep& step) const {
  int home = -1;
  for (const CopyId id : step.inputs) {
    const int of_input = home_[id];
    if (multiplicity(id) != Multiplicity::PerVersion || home == of_input) {
      continue;
    }
    if (home >= 0 && updates_ > 1) {
      refuse(
          fmt::format("the table {} updates stages one after the other, but {} is computed from "
                      "weights of two stages; use a table with one update, such as 1f1b",
                      table_.name, placed_.value(step.outputs.front()).name));
    }
    home = of_input;
  }
  return home;
}

/// With several updates, nothing in the backward may need one version for several micro-batches.
void RunOrder::check_reads(std::size_t step) const {
  const PlacedStep& placed = placed_.steps[step];
  if (updates_ == 1 || step_multiplicity_[step] != Multiplicity::PerUpdate ||
      placed.phase == Phase::Update) {
    return;
  }
  for (const CopyId id : placed.inputs) {
    if (multiplicity(id) == Multiplicity::PerVersion) {
      refuse(
          fmt::format("the table {} updates the weights {} times in a step, but {} is computed "
                      "once for several micro-batches; use a table with one update, such as "
                      "1f1b",
                      table_.name, updates_, placed_.value(placed.outputs.front()).name));
    }
  }
}

/// Whether a step that leads to new weights reads the result of another stage's update.
void RunOrder::find_joint() {
  std::set<CopyId> leads(placed_.updates.begin(), placed_.updates.end());
  const auto made_in_update = [&](CopyId id) {
    const std::int32_t step = placed_.copy(id).step;
    return step >= 0 && placed_.steps[step].phase == Phase::Update;
  };
  for (std::size_t s = placed_.steps.size(); s-- > 0;) {
    const PlacedStep& step = placed_.steps[s];
    if (step.phase != Phase::Update ||
        std::ranges::none_of(step.outputs, [&](CopyId id) { return leads.contains(id); })) {
      continue;
    }
    for (const CopyId id : step.inputs) {
      if (made_in_update(id)) {
        leads.insert(id);
        joint_ = joint_ || stage_of(id) != step.stage;
      }
    }
  }
  if (joint_ && updates_ > 1 && table_.weights == WeightVersions::Newest) {
    refuse(
        fmt::format("the table {} updates each stage as soon as it can, but the updates need the "
                    "gradients of all stages at once, as clipping by their norm does; disable "
                    "clipping (--clip 0), or use a table with one update, such as 1f1b",
                    table_.name));
  }
}

// Instances.

int RunOrder::micro_of(const Turn& turn) const {
  return turn.adds() || step_multiplicity_[turn.step] == Multiplicity::PerMicrobatch ? turn.instance
                                                                                     : -1;
}

int RunOrder::instance_for(const Turn& turn, CopyId id) const {
  const int m = micro_of(turn);
  switch (multiplicity(id)) {
    case Multiplicity::Once:
      return 0;
    case Multiplicity::PerMicrobatch:
      return turn.instance;
    case Multiplicity::PerVersion:
      return m < 0 ? turn.instance : versions_[home_[id]][m];
    case Multiplicity::PerUpdate:
      return m < 0 ? turn.instance : update_of(m);
  }
  return 0;
}

bool RunOrder::has_stage(int pipe, int stage) const {
  return std::ranges::any_of(table_.placement,
                             [&](const std::vector<int>& ranks) { return ranks[stage] == pipe; });
}

int RunOrder::source(const Turn& reader, int pipe, CopyId id, int instance) const {
  const int stage = stage_of(id);
  if (multiplicity(id) == Multiplicity::PerMicrobatch) {
    return table_.rank_of(index_.copy_of(instance), stage);
  }
  return has_stage(pipe, stage) ? pipe : table_.rank_of(reader.copy, stage);
}

std::vector<Read> RunOrder::reads_of(int pipe, const Turn& turn) const {
  const PlacedStep& step = placed_.steps[turn.step];
  std::vector<Read> reads;
  if (turn.part == Turn::Part::Complete) {
    for (int copy = 0; copy < table_.copies; ++copy) {
      if (takes_part(turn.instance, copy)) {
        reads.push_back({{step.outputs[0], turn.instance, copy}, table_.rank_of(copy, step.stage)});
      }
    }
    return reads;
  }
  for (const CopyId id : step.inputs) {
    if (!placed_.is_input(id)) {
      const int number = instance_for(turn, id);
      reads.push_back({{id, number}, source(turn, pipe, id, number)});
    }
  }
  return reads;
}

std::vector<Instance> RunOrder::made_by(const Turn& turn) const {
  const std::vector<CopyId>& outputs = placed_.steps[turn.step].outputs;
  if (turn.adds()) {
    return turn.part == Turn::Part::AddLast
               ? std::vector<Instance>{{outputs[0], instance_for(turn, outputs[0]), turn.copy}}
               : std::vector<Instance>{};
  }
  std::vector<Instance> made;
  for (const CopyId id : outputs) {
    made.push_back({id, turn.instance});
    if (leaf_of(id) >= 0) {
      made.push_back({leaf_of(id), turn.instance + 1});
    }
  }
  return made;
}

// Turns.

void RunOrder::add_once(int pipe, const Turn& turn, std::vector<Turn>& turns) {
  if (begun_.insert({pipe, turn.step, turn.instance}).second) {
    turns.push_back(turn);
  }
}

void RunOrder::add_work(int pipe, const PipelineTask& task, std::vector<Turn>& turns) {
  const int m = task.microbatch;
  const int update = update_of(m);
  const int done = ++tasks_done_[{task.stage, task.work, task.copy, update}];
  const bool last = done == members_.at({task.copy, update});
  // Steps that need all copies wait for the update.
  const bool alone = table_.copies == 1;
  for (const std::size_t s : task_steps_.of(task.stage, task.work)) {
    if (task_steps_.merges_micro(placed_.steps[s])) {
      turns.push_back({s, m, task.copy, last ? Turn::Part::AddLast : Turn::Part::Add});
      if (last && alone) {
        turns.push_back({s, update, task.copy, Turn::Part::Complete});
      }
      continue;
    }
    switch (step_multiplicity_[s]) {
      case Multiplicity::PerMicrobatch:
        turns.push_back({s, m, task.copy});
        break;
      case Multiplicity::Once:
        add_once(pipe, {s, 0, task.copy}, turns);
        break;
      case Multiplicity::PerVersion: {
        const CopyId made = placed_.steps[s].outputs.front();
        const int home = home_[made];
        add_once(pipe, {s, versions_[home][m], task.copy}, turns);
        break;
      }
      case Multiplicity::PerUpdate:
        if (alone && (last || !task_steps_.is_late(s))) {
          add_once(pipe, {s, update, task.copy}, turns);
        }
        break;
    }
  }
}

/// The steps of an Update of the stage: with several copies of the model, also the steps that combine the gradients of
/// all copies.
std::vector<std::size_t> RunOrder::steps_by_update(int stage) const {
  std::vector<PipelineWork> works{PipelineWork::Update};
  if (table_.copies > 1) {
    works.insert(works.end(), {PipelineWork::Forward, PipelineWork::Backward,
                               PipelineWork::BackwardInput, PipelineWork::BackwardWeight});
  }
  std::vector<std::size_t> steps;
  for (const PipelineWork work : works) {
    const std::vector<std::size_t> some = task_steps_.of(stage, work);
    std::ranges::copy_if(some, std::back_inserter(steps), [&](std::size_t s) {
      return step_multiplicity_[s] == Multiplicity::PerUpdate;
    });
  }
  return steps;
}

void RunOrder::add_updates(int pipe, const PipelineTask& task, std::vector<Turn>& turns) {
  const int update = update_of(task.microbatch);
  const std::vector<PipelineTask>& tasks = table_.tasks[pipe];
  const auto all = std::ranges::count_if(tasks, [&](const PipelineTask& other) {
    return other.work == task.work && other.microbatch == task.microbatch;
  });
  const bool last = ++updates_done_[{pipe, update}] == all;
  if (joint_ && !last) {
    return;  // the updates of all stages of a place run at the last of them, in the order of the graph
  }
  std::vector<std::pair<std::size_t, int>> steps;
  for (const PipelineTask& other : tasks) {
    if (other.work == task.work && other.microbatch == task.microbatch &&
        (joint_ || other == task)) {
      const std::vector<std::size_t> some = steps_by_update(other.stage);
      for (const std::size_t s : some) {
        steps.emplace_back(s, other.copy);
      }
    }
  }
  std::ranges::sort(steps);
  for (const auto& [s, copy] : steps) {
    const bool merges = task_steps_.merges_micro(placed_.steps[s]);
    add_once(pipe, {s, update, copy, merges ? Turn::Part::Complete : Turn::Part::All}, turns);
  }
}

}  // namespace trireme::partition
