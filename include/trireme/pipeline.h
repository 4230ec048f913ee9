// PipelineTable: which rank computes what, in which order, where the model is cut into stages and
// the batch into micro-batches. Naive, GPipe, 1F1B, PipeDream and the others are tables, not code.
//
// Plain data: build it, then treat it as immutable; any number of threads may read it. All
// functions may be called from any thread.
//
// Meaning. A rank does its tasks in the order of its list, each as soon as what it waits for is
// done:
//   Forward of stage s         the Forward of stage s-1, same micro-batch
//   Backward of stage s        its own Forward, and the Backward of stage s+1
//   BackwardInput of stage s   the same; computes the gradient for stage s-1 only
//   BackwardWeight of stage s  its BackwardInput; computes the gradient of the weights
//   Update of stage s          all gradients of the weights that it includes, of every copy
// Where the two are not on one rank, a message goes between.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class PipelineWork {
  Forward,
  Backward,  ///< both halves at once
  BackwardInput,
  BackwardWeight,
  Update,
};

/// One entry of a table. The stages are the parts of the model, first to last; where a rank has
/// several (interleaved, zb-v) there are more stages than ranks.
struct PipelineTask {
  PipelineWork work = PipelineWork::Forward;
  int stage = 0;
  /// An Update includes the micro-batches up to this one that no earlier Update of its stage
  /// includes.
  int microbatch = 0;
  /// Which of several replicas of the model (chimera has two) computes the micro-batch.
  int copy = 0;
  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// Which weights a micro-batch computes with. A Backward always uses those of its Forward; where
/// an Update comes between the two, the older version is kept for it (stashed).
enum class WeightVersions {
  Single,    ///< no micro-batch of a stage is under way at its Update: one version, as in training
             ///< on one device
  Newest,    ///< a Forward reads the newest version that its stage has then (PipeDream)
  Previous,  ///< the micro-batches between two Updates read the version that the Update before the
             ///< first of the two made: always one behind, on every stage (PipeDream-2BW)
};

struct PipelineTable {
  std::string name;  ///< for people; one word
  int ranks = 1;
  int stages = 1;
  int copies = 1;  ///< replicas of the whole model; each micro-batch goes through one of them
  int microbatches = 1;
  WeightVersions weights = WeightVersions::Single;
  std::vector<std::vector<int>> placement;       ///< by copy and stage: the rank that has it
  std::vector<std::vector<PipelineTask>> tasks;  ///< by rank, in order

  [[nodiscard]] int rank_of(int copy, int stage) const {
    return placement[static_cast<std::size_t>(copy)][static_cast<std::size_t>(stage)];
  }
  friend bool operator==(const PipelineTable&, const PipelineTable&) = default;
};

/// The largest table that is made, read or verified.
inline constexpr int kMostPipelineRanks = 4096;
inline constexpr int kMostPipelineStages = 1 << 16;
inline constexpr int kMostMicrobatches = 1 << 20;
inline constexpr std::size_t kMostPipelineTasks = 1 << 22;

/// What is wrong with the table, in words that name the tasks and the ranks; empty if nothing. The
/// first eight things. Checks that every micro-batch goes once forward and once back (whole, or in
/// both halves) through every stage of one copy, on the rank that has the stage; that the Updates
/// of a stage include exactly the gradients computed before them, and all stages update at the
/// same micro-batches; that weights are as `weights` says; and that nobody waits in a circle.
[[nodiscard]] std::vector<std::string> verify(const PipelineTable& table);

/// "F2.0": the Forward of micro-batch 0 on stage 2. F, B, I, W, U are the works in the order of the
/// enum; "F2.0/1" is that of copy 1.
[[nodiscard]] std::string to_text(const PipelineTask& task);

// Making tables.

struct PipelineOptions {
  int ranks = 4;
  int microbatches = 8;
};

/// A row of the catalogue.
struct PipelineSchedule {
  std::string_view name;
  std::string_view description;  ///< one line
  PipelineTable (*make)(const PipelineOptions&);
};

/// Every schedule that is known by name.
[[nodiscard]] std::span<const PipelineSchedule> pipeline_schedules();

/// The table of the schedule with this name. Throws Error(Usage) that lists the names, or says
/// which number is out of range.
[[nodiscard]] PipelineTable make_pipeline(std::string_view schedule,
                                          const PipelineOptions& options);

}  // namespace trireme
