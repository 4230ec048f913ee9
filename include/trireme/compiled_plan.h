// CompiledPlan: a graph compiled under a plan: the partition and the program of each rank. A run compiles it once, then
// verifies it, measures its memory, executes it, counts its bytes and prints it.
//
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/fusions.h"
#include "trireme/partition.h"
#include "trireme/parts.h"
#include "trireme/plan.h"
#include "trireme/program.h"
#include "trireme/valid.h"

namespace trireme {

/// Which ranks to compile.
struct OneOfEachKind {};

class CompiledPlan {
 public:
  /// Compiles the programs of all ranks. Throws Error(Usage) if the plan does not fit the graph.
  explicit CompiledPlan(NamedGraph graph, Plan plan, const Fusions& fusions = {});
  /// Compiles the program of one rank only.
  CompiledPlan(NamedGraph graph, Plan plan, int only_rank, const Fusions& fusions = {});
  /// Compiles the programs of these ranks only.
  CompiledPlan(NamedGraph graph, Plan plan, std::vector<int> ranks);
  /// Compiles the program of the first rank of each kind only: see kinds().
  CompiledPlan(NamedGraph graph, Plan plan, OneOfEachKind which, const Fusions& fusions = {});
  ~CompiledPlan();
  CompiledPlan(CompiledPlan&&) noexcept;
  CompiledPlan& operator=(CompiledPlan&&) noexcept;
  CompiledPlan(const CompiledPlan&) = delete;
  CompiledPlan& operator=(const CompiledPlan&) = delete;

  /// The graph of one logical device.
  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  [[nodiscard]] const Partition& partition() const noexcept { return *partition_; }
  /// The axes that placements refer to.
  [[nodiscard]] const Axes& axes() const noexcept { return placements_.axes; }
  /// Requires that this rank was compiled.
  [[nodiscard]] const Program& program(int rank) const;
  /// The compiled programs, in the order of ranks().
  [[nodiscard]] std::span<const Program> programs() const noexcept { return programs_; }
  [[nodiscard]] std::span<const int> ranks() const noexcept { return ranks_; }

  /// The program of every rank. Requires that all ranks were compiled, or one of each kind.
  [[nodiscard]] RankPrograms rank_programs() const;

  /// Which ranks run the same.
  [[nodiscard]] RankKinds kinds() const { return partition_->kinds(plan_, placements_); }

  /// The shard of a value that a rank stores. The value is an input, parameter, state or output of graph().
  [[nodiscard]] Part shard_of(const Value& value, int rank) const;
  /// Whether a rank stores the value or a shard of it: whether it runs the value's pipeline stage.
  [[nodiscard]] bool stores(const Value& value, int rank) const;

 private:
  void place(const DimNames& names);
  void compile(const Fusions& fusions);

  Graph graph_;
  Plan plan_;
  PlacementSpec placements_;
  PipelineTable table_;
  std::unique_ptr<Partition> partition_;
  std::vector<int> ranks_;
  std::vector<Program> programs_;  ///< by ranks_
};

/// Errors in the programs taken together; empty if they run to completion. Requires that all ranks were compiled.
[[nodiscard]] std::vector<std::string> problems(const CompiledPlan& compiled);

/// How many plans this process has compiled, so that a test can show that a run compiles its step once.
[[nodiscard]] std::int64_t compilation_count();

}  // namespace trireme
