// PipelineTable: the tasks of each rank, in order, with the model split into stages and the batch
// into micro-batches. Naive, GPipe, 1F1B, PipeDream and all other schedules are tables, not code.
//
// Plain data: build it, then treat it as immutable; any number of threads may read it. All
// functions may be called from any thread.
//
// Semantics. A rank runs its tasks in the order of its list, each as soon as its dependencies are
// done:
//   Forward of stage s         the Forward of stage s-1, same micro-batch
//   Backward of stage s        its own Forward, and the Backward of stage s+1
//   BackwardInput of stage s   the same; computes the gradient for stage s-1 only
//   BackwardWeight of stage s  its BackwardInput; computes the gradient of the weights
//   Update of stage s          all gradients of the weights that it includes, of every copy
// If the two are on different ranks, a message connects them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/valid.h"

namespace trireme {

enum class PipelineWork {
  Forward,
  Backward,  ///< both halves at once
  BackwardInput,
  BackwardWeight,
  Update,
};

/// One entry of a table. Stages are numbered from the first part of the model to the last; if a
/// rank has several (interleaved, zb-v) there are more stages than ranks.
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

/// Which weights a micro-batch uses. A Backward always uses those of its Forward; if an Update
/// comes between the two, the older version is kept (stashed).
enum class WeightVersions {
  /// No micro-batch of a stage is in flight at its Update: there is one version, as in training on one device.
  Single,
  /// A Forward reads the newest version of its stage (PipeDream).
  Newest,
  /// Micro-batches that the (g+1)-th Update includes read version g-1 (0 for g = 0), on every stage: always one behind
  /// (PipeDream-2BW).
  Previous,
};

struct PipelineTable {
  std::string name;  ///< one word, for display
  int ranks = 1;
  int stages = 1;
  int copies = 1;  ///< replicas of the whole model; each micro-batch goes through one of them
  int microbatches = 1;
  WeightVersions weights = WeightVersions::Single;
  std::vector<std::vector<int>> placement;       ///< by copy and stage: the rank that has it
  std::vector<std::vector<PipelineTask>> tasks;  ///< by rank, in order

  [[nodiscard]] int rank_of(int copy, int stage) const { return placement[copy][stage]; }
  friend bool operator==(const PipelineTable&, const PipelineTable&) = default;
};

/// The largest table that is created, parsed or verified.
inline constexpr int kMaxPipelineRanks = 4096;
inline constexpr int kMaxPipelineStages = 1 << 16;
inline constexpr int kMaxMicrobatches = 1 << 20;
inline constexpr std::size_t kMaxPipelineTasks = 1 << 22;

/// The first eight errors in the table, in words that name the tasks and the ranks; empty if it is
/// valid. Checks that every micro-batch goes once forward and once back (whole, or in both halves)
/// through every stage of one copy, on the rank that has the stage; that the Updates of a stage
/// include exactly the gradients computed before them, and all stages update at the same
/// micro-batches; that weight versions match `weights`; and that there is no deadlock.
[[nodiscard]] std::vector<std::string> problems(const PipelineTable& table);

// Weight versions. Version v of a stage's weights is the result of its first v Updates; 0 is the
// initial one.

/// By stage and micro-batch: the version that its Forward reads and its Backward uses. Requires a
/// table that verifies.
[[nodiscard]] std::vector<std::vector<int>> weight_versions(const PipelineTable& table);

/// By copy and stage: the most versions that its rank keeps at one time: the newest, and those that
/// micro-batches in flight use. Requires the same.
[[nodiscard]] std::vector<std::vector<int>> live_versions(const PipelineTable& table);

/// By rank: the most activations that it keeps at one time, in units of one micro-batch in one
/// stage. The activations of a micro-batch are kept from its Forward until its weight gradients are
/// computed: BackwardWeight needs the layers' inputs again, and is counted as needing everything.
/// Requires the same. Independent of durations, because the order is fixed.
[[nodiscard]] std::vector<int> activation_peaks(const PipelineTable& table);

// Time.

/// How long one micro-batch takes in one stage, in any unit. A Backward takes as long as both
/// halves.
struct PipelineDurations {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double update = 0;
  /// From the end of a task to the start of a dependent task on another rank; keeps neither busy.
  double message = 0;
  friend bool operator==(const PipelineDurations&, const PipelineDurations&) = default;
};

/// The durations of one stage if a rank's share of the model takes these: with two stages per rank,
/// each takes half. A message is not scaled.
[[nodiscard]] PipelineDurations stage_durations(const PipelineTable& table,
                                                const PipelineDurations& of_a_rank);

struct PipelineTiming {
  struct Span {
    double start = 0;
    double end = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };
  std::vector<std::vector<Span>> tasks;  ///< as in the table: by rank, in order
  double makespan = 0;                   ///< from the first start to the last end of all ranks
  double work = 0;                       ///< of all ranks together
  /// The idle share of all ranks' time during the makespan. An Update that takes no time does not
  /// count as an end.
  double bubble = 0;
  /// The idle share of the rank with the longest span, from its own first start to its own last
  /// end: what remains if a rank may begin its next batch before the others have finished this one.
  double rank_bubble = 0;
  /// The idle share while all ranks run both forward and backward: after each has computed its
  /// first gradient and before any begins its last Forward. Absent if there is no such period.
  std::optional<double> steady_bubble;
};

/// When each task runs if each begins as early as it can. Throws Error(Usage) with the first
/// problem if problems() finds one, or if a duration is negative or not finite.
[[nodiscard]] PipelineTiming time_pipeline(const PipelineTable& table,
                                           const PipelineDurations& durations);
/// The same with durations by stage.
[[nodiscard]] PipelineTiming time_pipeline(const PipelineTable& table,
                                           std::span<const PipelineDurations> by_stage);

/// How many messages ranks exchange, forward and backward, for all micro-batches; excludes
/// gradients between copies. Requires a table that verifies.
[[nodiscard]] std::int64_t count_messages(const PipelineTable& table);

// Creating tables.

struct PipelineOptions {
  int ranks = 4;
  int microbatches = 8;
  int chunks = 2;  ///< stages per rank, for schedules with a choice
};

/// A row of the catalog.
struct PipelineSchedule {
  std::string_view name;
  std::string_view description;  ///< one line
  /// The published bubble, for D ranks, N micro-batches, K chunks.
  std::string_view bubble;
  PipelineTable (*make)(const PipelineOptions&);
  bool has_chunks = false;  ///< whether PipelineOptions::chunks matters
  int ranks_multiple = 1;   ///< the number of ranks must be a multiple of this
  /// Every Forward comes before the first Backward; a single rank follows this too.
  bool forward_first = false;
};

/// Every named schedule.
[[nodiscard]] std::span<const PipelineSchedule> pipeline_schedules();

/// The row with this name. Throws Error(Usage) listing the names.
[[nodiscard]] const PipelineSchedule& find_pipeline_schedule(std::string_view name);

/// Why the schedule does not support these options; empty if it does.
[[nodiscard]] std::vector<std::string> problems(const PipelineSchedule& schedule,
                                                const PipelineOptions& options);

/// The table of the schedule with this name. Throws Error(Usage) if the name is unknown or the schedule cannot be made.
[[nodiscard]] PipelineTable make_pipeline(std::string_view schedule,
                                          const PipelineOptions& options);

// The text form (.pipeline). parse_pipeline(to_text(t)) == t.

/// "F2.0": the Forward of micro-batch 0 on stage 2. F, B, I, W, U are the kinds of work in the
/// order of the enum; "F2.0/1" is that of copy 1.
/// "forward", "backward-input", …
[[nodiscard]] std::string_view to_text(PipelineWork work);
[[nodiscard]] std::string to_text(const PipelineTask& task);
[[nodiscard]] std::string to_text(const PipelineTable& table);

/// Throws Error(Input) that names the line. Numbers in the result are in range; to validate the
/// table, call problems().
[[nodiscard]] PipelineTable parse_pipeline(std::string_view text);

/// "single", "newest", "previous": the words of the text form.
[[nodiscard]] std::string_view to_text(WeightVersions weights);

}  // namespace trireme
