// The ranks of a training run. One thread at a time; all ranks make the same calls.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm.h"
#include "trireme/communicator.h"
#include "trireme/plan.h"

namespace trireme::train {

/// The first rank where `here` is true, or the number of ranks if there is none. Collective.
[[nodiscard]] int first_rank_with(World& world, bool here);

/// The ranks of a world; without a world, one device.
class Ranks {
 public:
  Ranks(const Plan& plan, World* world);

  [[nodiscard]] int rank() const { return world_ == nullptr ? 0 : world_->rank(); }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] bool leads() const { return rank() == 0; }
  [[nodiscard]] World* world() { return world_; }
  [[nodiscard]] Communicator* communicator() { return communicator_.get(); }

  /// See first_rank_with().
  [[nodiscard]] int first_with(bool here);
  [[nodiscard]] bool any(bool here) { return first_with(here) < count_; }
  /// Throws ReportedElsewhere unless this rank is `reporter`, which throws the actual reason.
  void require_reported_by(int reporter) const;
  /// Number of ranks on each machine; this machine first.
  [[nodiscard]] std::vector<int> by_host() const;

 private:
  int count_;
  World* world_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace trireme::train
