// What every place of the pipeline does in each of its tasks: each placed step once, or once per micro-batch, weight
// version or update. Callable from any thread.
//
// A table may update the weights several times in a training step. Each update includes some of the micro-batches; a
// weight version is a value like any other, made by an update and read by the forward and backward of the micro-batches
// that the table specifies. A table may also have several copies of the model; a step of a stage then runs on every
// place that has the stage.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "partition/placed.h"
#include "partition/task_steps.h"
#include "plan/pipeline_index.h"
#include "trireme/pipeline.h"

namespace trireme::partition {

/// How often a copy of a value, or a step, occurs in a training step.
enum class Multiplicity : std::uint8_t {
  Once,
  PerMicrobatch,  ///< per micro-batch
  PerVersion,     ///< per weight version that is read: values that depend only on weights
  PerUpdate,      ///< per update: what takes all micro-batches that it includes
};

/// One execution of a step.
struct Turn {
  std::size_t step = 0;
  int instance = 0;  ///< the micro-batch, version or update
  int copy = 0;      ///< of the model
  enum class Part : std::uint8_t {
    All,
    Add,       ///< of a merge along micro-batches: one of them is added
    AddLast,   ///< likewise, the last of the update on this copy
    Complete,  ///< all have arrived, of all copies; the instance is the update
  } part = Part::All;

  [[nodiscard]] bool adds() const { return part == Part::Add || part == Part::AddLast; }
};

/// An instance of a copy of a value; or, where copies of the model add up their values, the term of one of them.
struct Instance {
  CopyId id = -1;
  int number = 0;
  int part = -1;  ///< the copy of the model; -1: the whole
  friend auto operator<=>(const Instance&, const Instance&) = default;
};

/// A value that a turn reads, and the place that has it.
struct Read {
  Instance what{};
  int from = 0;
};

class RunOrder {
 public:
  /// Both must outlive this object. Throws Error(Usage) if the table does not match the placed steps.
  RunOrder(const Placed& placed, const PipelineTable& table);

  /// By task of this place of the pipeline, in order.
  [[nodiscard]] const std::vector<std::vector<Turn>>& at(int pipe) const { return turns_[pipe]; }

  /// Reorders them: a task keeps its turns, but may start gathers of later ones.
  void set_turns(int pipe, std::vector<std::vector<Turn>> turns) {
    turns_[pipe] = std::move(turns);
  }
  [[nodiscard]] int places() const { return turns_.count(); }

  [[nodiscard]] Multiplicity multiplicity(CopyId id) const { return multiplicity_[id]; }
  /// The instance of a copy that the turn reads.
  [[nodiscard]] int instance_for(const Turn& turn, CopyId id) const;
  /// The micro-batch that the turn is for; -1: none.
  [[nodiscard]] int micro_of(const Turn& turn) const;
  /// The place from which a reader gets the copy: its own, if it has it.
  [[nodiscard]] int source(const Turn& reader, int pipe, CopyId id, int instance) const;
  [[nodiscard]] bool has_stage(int pipe, int stage) const;
  /// The values that a turn of this place reads, except inputs of the graph, and those it produces.
  [[nodiscard]] std::vector<Read> reads_of(int pipe, const Turn& turn) const;
  [[nodiscard]] std::vector<Instance> made_by(const Turn& turn) const;
  [[nodiscard]] int stage_of(CopyId id) const;

  [[nodiscard]] int updates() const { return updates_; }
  /// Whether any micro-batch of the update goes through this copy of the model.
  [[nodiscard]] bool takes_part(int update, int copy) const {
    return members_.contains({copy, update});
  }
  /// How many examples the update includes.
  [[nodiscard]] std::int64_t weight(int update) const { return weights_[update]; }
  /// The copy that is the next version of the one kept between steps; -1: it does not change.
  [[nodiscard]] CopyId next_of(CopyId leaf) const;
  /// The leaf whose next version the copy is; -1: none.
  [[nodiscard]] CopyId leaf_of(CopyId next) const;

 private:
  [[nodiscard]] int update_of(int m) const { return update_of_[m]; }
  void count_updates();
  void find_weights();
  void find_next();
  void find_multiplicities();
  [[nodiscard]] Multiplicity multiplicity_of_step(std::size_t step) const;
  [[nodiscard]] int home_of_inputs(const PlacedStep& step) const;
  void check_reads(std::size_t step) const;
  void find_joint();
  void add_work(int pipe, const PipelineTask& task, std::vector<Turn>& turns);
  [[nodiscard]] std::vector<std::size_t> steps_by_update(int stage) const;
  void add_updates(int pipe, const PipelineTask& task, std::vector<Turn>& turns);
  void add_once(int pipe, const Turn& turn, std::vector<Turn>& turns);

  const Placed& placed_;
  const PipelineTable& table_;
  PipelineIndex index_;
  TaskSteps task_steps_;
  IndexedVector<int, std::vector<int>> versions_;  ///< by stage and micro-batch
  int updates_ = 1;
  IndexedVector<int, int> update_of_;           ///< by micro-batch
  IndexedVector<int, std::int64_t> weights_;    ///< by update
  std::map<std::pair<int, int>, int> members_;  ///< by copy of the model and update: micro-batches
  std::map<CopyId, CopyId> next_;
  std::map<CopyId, CopyId> leaf_;
  IndexedVector<CopyId, Multiplicity> multiplicity_;  ///< by copy
  std::vector<Multiplicity> step_multiplicity_;       ///< by step
  IndexedVector<CopyId, int> home_;  ///< by copy, of what goes by version: the stage whose versions
  bool joint_ = false;               ///< updates of one stage need something of others'
  IndexedVector<int, std::vector<std::vector<Turn>>> turns_;  ///< by place and task
  std::set<std::tuple<int, std::size_t, int>> begun_;         ///< place, step, instance
  /// By stage, work, copy and update.
  std::map<std::tuple<int, PipelineWork, int, int>, int> tasks_done_;
  std::map<std::pair<int, int>, int> updates_done_;  ///< by place and update
};

}  // namespace trireme::partition
