// How the workers of a data-parallel run synchronize, as data. See docs/synchronization.md. Callable from any thread.
//
// A worker is one replica of the model: the ranks that share an index along the mesh's `data` axis. Each worker trains on
// its share of every batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan.h"
#include "trireme/valid.h"

namespace trireme {

struct SyncSpec {
  enum class Kind : std::uint8_t {
    Allreduce,  ///< gradients are all-reduced in every step
    Tree,  ///< gradients go up a binary tree to worker 0, which updates the model and sends it down
    Gossip,  ///< stochastic gradient push: each worker averages with one other, at distances 1, 2, 4, …
    Group,        ///< models are averaged in groups that change from step to step (WAGMA)
    Local,        ///< models are averaged every few steps
    Hogwild,      ///< threads update one model without locks
    ServerBsp,    ///< parameter server with a barrier in every step
    ServerSsp,    ///< parameter server, bounded staleness
    ServerEssp,   ///< the same, with eager refresh
    ServerAsync,  ///< parameter server, no waiting
  } kind = Kind::Allreduce;
  int group = 0;         ///< Group: workers of a group
  int global_every = 0;  ///< Group: average over all workers every this many steps; 0: never
  int steps = 1;         ///< Local: steps from one average to the next
  int staleness = 3;     ///< ServerSsp and ServerEssp
  /// Server*: whether each worker has its own part of every batch, or takes parts from a pool.
  enum class Samples : std::uint8_t { Shares, Pool } samples = Samples::Shares;
  /// ServerAsync: whether a worker reads the model before it computes, or concurrently, mixed with updates of others.
  enum class Reads : std::uint8_t { Snapshot, Inconsistent } reads = Reads::Snapshot;
  friend bool operator==(const SyncSpec&, const SyncSpec&) = default;
};
/// "allreduce", "ps:ssp", …
[[nodiscard]] std::string_view to_text(SyncSpec::Kind kind);
[[nodiscard]] std::string_view to_text(SyncSpec::Samples samples);
[[nodiscard]] std::string_view to_text(SyncSpec::Reads reads);

/// "allreduce", "tree", "gossip", "group=4", "group=4,global=10", "local=8", "hogwild", "ps:bsp", "ps:ssp=3",
/// "ps:essp=3", "ps:async", "ps:async,inconsistent"; "ps:ssp=3,pool".
[[nodiscard]] std::string to_text(const SyncSpec& spec);
/// Reads that back. Throws Error(Usage) that lists the strategies.
[[nodiscard]] SyncSpec parse_sync(std::string_view text);

/// What is wrong, in words: a group of 1, no steps between averages, …
[[nodiscard]] std::vector<std::string> problems(const SyncSpec& spec);
/// The same, plus the reasons why the strategy cannot train under this plan. Messages name the options of `trireme
/// train`.
[[nodiscard]] std::vector<std::string> problems(const SyncSpec& spec, const Plan& plan);

/// Whether each worker has its own model, which the strategy keeps in sync; if not, all ranks run one program.
[[nodiscard]] bool has_replicas(const SyncSpec& spec);
/// Whether workers must be threads of one process.
[[nodiscard]] bool needs_threads(const SyncSpec& spec);
/// Whether a parameter server holds the model.
[[nodiscard]] bool uses_server(const SyncSpec& spec);
/// The maximum number of f32 copies of the model that a worker keeps for synchronization, besides the model it trains.
[[nodiscard]] int model_copies(const SyncSpec& spec);
/// Whether gradients are applied elsewhere than on the worker that computed them.
[[nodiscard]] bool updates_elsewhere(const SyncSpec& spec);
/// How far ahead of the slowest worker a worker may start a step, on a parameter server; nullopt if unbounded.
[[nodiscard]] std::optional<int> staleness_bound(const SyncSpec& spec);

}  // namespace trireme
