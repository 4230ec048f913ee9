// The ranks of a training run. One thread at a time; all ranks make the same calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trireme/comm.h"
#include "trireme/communicator.h"
#include "trireme/plan.h"
#include "trireme/sync.h"

namespace trireme::train {

/// Of ranks that this program starts.
[[nodiscard]] WorldOptions rank_world_options();

/// The first rank where `here` is true, or the number of ranks if there is none. Collective over the ranks of the group.
[[nodiscard]] int first_rank_with(World& world, Group& group, bool here);
/// Over all ranks of the world.
[[nodiscard]] int first_rank_with(World& world, bool here);

/// The place of a rank along the mesh's data axis.
[[nodiscard]] int index_along_data(const Mesh& mesh, int rank);

/// The plan of one worker, if each worker has its own model: the plan without the `data` axis.
[[nodiscard]] Plan plan_of_worker(const Plan& plan, const SyncSpec& sync);
/// The number of workers with their own models; 1 if all ranks run one program.
[[nodiscard]] int worker_count(const Plan& plan, const SyncSpec& sync);

/// The ranks of a world; without a world, one device. If each worker has its own model, a worker is a part of the
/// world, with a communicator for its ranks alone.
class Ranks {
 public:
  /// Collective. Throws Error(Usage) if the world does not suit the plan or the strategy.
  Ranks(const Plan& plan, const SyncSpec& sync, World* world);

  [[nodiscard]] int rank() const { return world_ == nullptr ? 0 : world_->rank(); }
  [[nodiscard]] int count() const { return count_; }
  /// Whether this is the first rank of those that live.
  [[nodiscard]] bool leads() const { return rank() == (all_ ? all_->world_ranks().front() : 0); }
  [[nodiscard]] World* world() { return world_; }
  /// Of this rank's worker; null if that is one device.
  [[nodiscard]] Communicator* communicator() { return communicator_.get(); }

  /// The data-parallel worker that this rank belongs to.
  [[nodiscard]] int worker() const { return worker_; }
  /// The number of workers with their own models; 1 if all ranks run one program.
  [[nodiscard]] int workers() const { return workers_; }
  /// This rank among the ranks of its worker.
  [[nodiscard]] int rank_in_worker() const {
    return communicator_ == nullptr ? 0 : communicator_->rank();
  }
  /// The ranks with the same shards, one of each worker. Requires that each worker has its own model.
  [[nodiscard]] Group& counterparts() { return *counterparts_; }
  /// All ranks that live. Requires a world.
  [[nodiscard]] Group& all() { return *all_; }

  /// Some workers have died: all() and counterparts() are those that live from now on. Requires that parameter servers
  /// have the model, so that each rank is a worker. Collective over them. Throws CommError if this rank must not continue.
  void continue_without_dead();

  /// See first_rank_with().
  [[nodiscard]] int first_with(bool here);
  /// Replaces each number by its maximum over all ranks. Collective.
  void take_maximum(std::span<std::int32_t> numbers);
  [[nodiscard]] bool any(bool here) { return first_with(here) < count_; }
  /// Throws ReportedElsewhere unless this rank is `reporter`, which throws the actual reason.
  void require_reported_by(int reporter) const;
  /// Number of ranks on each machine; this machine first.
  [[nodiscard]] std::vector<int> by_host() const;
  /// This rank among the ranks of its machine.
  [[nodiscard]] int rank_on_host() const;

 private:
  void split(const Plan& plan, const SyncSpec& sync);

  int count_;
  World* world_;
  int workers_;
  int worker_;
  std::unique_ptr<Communicator> communicator_;
  std::optional<Group> all_;  ///< if there is a world
  /// With parameter servers, the same group as all_, which fails as a whole.
  std::optional<Group> counterparts_;
};

}  // namespace trireme::train
