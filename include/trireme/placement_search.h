// Exact choices on a graph of ops. Intra-op: each op has several strategies, each with a cost, and each edge a cost that
// depends on the strategies at both ends (resharding); find the cheapest combination, within memory. Inter-op: split a
// chain of layers into stages and give each a part of the cluster.
//
// Pure; all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace trireme {

// Intra-op.

struct StrategyProblem {
  struct Node {
    std::vector<double> cost{};    ///< of each strategy
    std::vector<double> memory{};  ///< of each strategy; empty: none
  };
  struct Edge {
    int from = 0;
    int to = 0;
    std::vector<double> cost{};  ///< strategies of `from` x strategies of `to`, row by row
  };
  std::vector<Node> nodes{};
  std::vector<Edge> edges{};
};

struct StrategyChoice {
  std::vector<int> strategies{};  ///< by node
  double cost = 0;
  double memory = 0;
  double bound =
      0;  ///< no choice within memory is cheaper; equals `cost` if the choice is proven to be optimal
};

/// The cost and the memory of a choice.
[[nodiscard]] StrategyChoice evaluate(const StrategyProblem& problem, std::vector<int> strategies);

/// The cheapest choice, by eliminating one node after the other: exact, and fast where the graph is narrow, as that of a
/// transformer is (a node with w neighbors left costs as many steps as they have combinations). Throws Error(Usage) if an
/// edge or a cost is out of range, or if the graph is so wide that elimination would need more than `kMaxTable` entries.
[[nodiscard]] StrategyChoice choose_strategies(const StrategyProblem& problem);

/// The same within `memory`, by a Lagrangian bound and, where that leaves a gap, branch and bound. Optimal if `cost` is
/// `bound`; large problems may be left with a gap, since the work is limited to about 0.05 s. Nothing if even the choice
/// with the least memory does not fit.
[[nodiscard]] std::optional<StrategyChoice> choose_strategies(const StrategyProblem& problem,
                                                              double memory);

inline constexpr std::int64_t kMaxTable = 1 << 22;

// Inter-op.

struct Stage {
  int first = 0;  ///< layers [first, last)
  int last = 0;
  int devices = 1;
  double seconds = 0;
};

struct StageSplit {
  std::vector<Stage> stages{};
  double seconds =
      0;  ///< of a step: the sum of all stages, and the slowest once more for each further micro-batch
};

/// The seconds that layers [first, last) take for one micro-batch on this many devices; nothing if they do not fit there.
using StageSeconds = std::function<std::optional<double>(int first, int last, int devices)>;

struct SplitOptions {
  int layers = 1;
  int devices = 1;
  int microbatches = 1;
  std::vector<int> sizes{};  ///< allowed devices of a stage; empty: powers of two
};

/// Minimizes sum(t) + (microbatches - 1) * max(t) over all splits of the layers and all ways to deal out exactly all
/// devices (Zheng et al. 2022, Alpa): for each possible slowest stage, dynamic programming over layers and devices.
/// Nothing if no split fits.
[[nodiscard]] std::optional<StageSplit> split_into_stages(const SplitOptions& options,
                                                          const StageSeconds& seconds);

/// The seconds that a stage takes for one micro-batch with this many blocks; nothing if they do not fit there.
using BlockSeconds = std::function<std::optional<double>(int stage, int blocks)>;

struct DealOptions {
  int blocks = 1;
  int stages = 1;
  int microbatches = 1;
};

/// Equal blocks on stages of unequal speed or memory, in the given order: minimizes sum(t) + (microbatches - 1) * max(t)
/// over all ways to give every stage one block or more. Exact, by dynamic programming over stages and blocks for each
/// possible slowest stage. Requires that more blocks never take less time. Nothing if no way fits.
[[nodiscard]] std::optional<StageSplit> deal_to_unequal_stages(const DealOptions& options,
                                                               const BlockSeconds& seconds);

/// PipeDream's partitioner (Narayanan et al. 2019): the pipeline never drains, so only its slowest stage matters, and a
/// stage may be replicated.
struct LayerProfile {
  double compute = 0;           ///< seconds, forward and backward, of one micro-batch
  double activation_bytes = 0;  ///< sent to the next layer, and as many back
  double parameter_bytes = 0;
};

struct ReplicatedStages {
  std::vector<Stage> stages{};  ///< `devices` is the number of replicas
  double seconds = 0;           ///< per micro-batch, of the slowest stage or link
  int in_flight = 1;            ///< micro-batches that keep all stages busy (NOAM)
};

[[nodiscard]] ReplicatedStages partition_pipedream(const std::vector<LayerProfile>& layers,
                                                   int devices, double bytes_per_second);

}  // namespace trireme
