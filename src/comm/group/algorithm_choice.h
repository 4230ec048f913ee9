// AlgorithmChoice: which method does a call, by what the caller asked for, the tuning table, or the
// predicted times. The same on all ranks if their calls are. Any thread.
#pragma once

#include "comm/group/group_model.h"
#include "comm/wire/geometry.h"
#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/tuning.h"

namespace trireme::comm {

class AlgorithmChoice {
 public:
  /// The options outlive this.
  AlgorithmChoice(const GroupShape& shape, const WorldOptions& options)
      : shape_(shape), tuning_(options.tuning), model_(shape, options.costs) {}

  /// Throws Error(Usage) if the caller asks for what this group cannot do.
  [[nodiscard]] Method choose(const Call& call, const Geometry& geometry);
  [[nodiscard]] const GroupModel& model() const { return model_; }

 private:
  [[nodiscard]] bool accepts(const Method& tuned, const Call& call, bool own_sizes) const;
  [[nodiscard]] Method choose_for_blocks(const Call& call, const Geometry& geometry);

  const GroupShape shape_;
  const Tuning& tuning_;
  GroupModel model_;
};

}  // namespace trireme::comm
