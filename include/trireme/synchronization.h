// Synchronization strategies of data-parallel training, simulated: how long workers wait for one another, and how far
// apart they get. No numbers are trained; see docs/simulator.md. Callable from any thread.
//
// Clocks. c_i is the number of iterations that worker i has completed: computed and communicated. The staleness of an
// iteration is c_i - min_j c_j when it starts: how many iterations the slowest worker is behind what the others have
// already contributed. The largest one is the drift of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/time_variation.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme::simulate {

enum class Strategy : std::uint8_t {
  Bsp,   ///< parameter server with a barrier: an iteration starts when all have completed the last
  Ssp,   ///< parameter server, bounded staleness: starts if c_i - min_j c_j <= s
  Essp,  ///< eager SSP (Dai et al. 2015): the server pushes parameters as soon as the slowest worker has completed
  Async,      ///< parameter server, no waiting
  Allreduce,  ///< all workers reduce their gradients together
  Grouped,    ///< all-reduce in groups that change from iteration to iteration (WAGMA-SGD)
  Gossip,  ///< each sends to one worker and receives from one, at distances 1, 2, 4, … (stochastic gradient push)
};
/// "bsp", "ssp", "essp", "async", "all-reduce", "grouped", "gossip".
[[nodiscard]] std::string_view to_text(Strategy strategy);
[[nodiscard]] std::span<const Strategy> all_strategies();

/// The SSP rule: whether the worker may start its next iteration.
[[nodiscard]] bool may_start(std::span<const std::int64_t> completed, int worker, int staleness);

struct StrategyOptions {
  int workers = 8;
  Seconds compute{1};  ///< nominal time of an iteration's computation
  TimeVariation variation{};
  /// Overrides `compute` and `variation`: the time of a worker's iteration, both counted from 0.
  std::function<double(int worker, std::int64_t iteration)> compute_time{};
  Seconds alpha{0};     ///< latency of a message
  Seconds transfer{0};  ///< time that the whole model takes over a link
  int staleness = 3;    ///< s of SSP and ESSP
  int group = 0;        ///< workers of a group; 0: the root of the number of workers, rounded
  /// The run ends when all workers together have completed workers * steps iterations.
  std::int64_t steps = 1000;
  bool keep_iterations = false;  ///< fill StrategyResult::iterations
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const StrategyOptions& options);

/// How long a worker communicates in an iteration, for a model that takes T = `transfer` over a link:
///
///   bsp, ssp, async   2 (α + T): push and pull; the servers are never the bottleneck
///   essp              α + T: push; the server's own pushes overlap with computation, but a worker that waits for the
///                     slowest one learns of its progress α + T later
///   all-reduce        2 (P-1) α + 2 (P-1)/P T: a ring
///   grouped           the same for a group
///   gossip            α + T
[[nodiscard]] Seconds communication_time(Strategy strategy, const StrategyOptions& options);

/// One iteration of a worker.
struct IterationTimes {
  int worker = 0;
  std::int64_t iteration = 0;  ///< counted from 0
  double start = 0;
  double computed = 0;
  double completed = 0;
  std::int64_t staleness = 0;  ///< at its start
};

struct WorkerTimes {
  std::int64_t iterations = 0;  ///< completed
  Seconds computing{};
  Seconds communicating{};
  Seconds waiting{};
};

struct StrategyResult {
  Strategy strategy = Strategy::Bsp;
  Seconds time{};         ///< of the run
  double throughput = 0;  ///< iterations of all workers per second
  double of_ideal =
      0;  ///< throughput over workers / compute: of workers that never wait or communicate
  double utilization = 0;  ///< computing, as a share of all workers' time
  std::int64_t drift = 0;
  std::vector<std::int64_t> staleness{};  ///< [k]: how many iterations started with staleness k
  std::vector<WorkerTimes> workers{};
  std::vector<IterationTimes> iterations{};  ///< completed ones, by completion; if kept

  [[nodiscard]] double mean_staleness() const;
  /// The least k such that this share of the iterations has staleness k or less.
  [[nodiscard]] std::int64_t staleness_quantile(double share) const;
};

/// Throws Error(Usage) if the options are wrong.
[[nodiscard]] StrategyResult simulate_strategy(Strategy strategy, const StrategyOptions& options);

/// All of them, on the same times.
[[nodiscard]] std::vector<StrategyResult> compare_strategies(const StrategyOptions& options);

/// The worker's group in an iteration: neighbors in even ones, workers at equal distances in odd ones, so that with
/// P = S² two iterations reach everybody.
[[nodiscard]] int group_of(int worker, std::int64_t iteration, int workers, int group_size);

}  // namespace trireme::simulate
