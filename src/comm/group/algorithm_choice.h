// AlgorithmChoice: selects the method for a call, by the caller's request, the tuning table, or the
// predicted times. All ranks make the same choice if their calls are equal. Callable from any
// thread.
#pragma once

#include "comm/group/group_model.h"
#include "comm/wire/geometry.h"
#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/tuning.h"

namespace trireme::comm {

class AlgorithmChoice {
 public:
  /// The options must outlive this object.
  AlgorithmChoice(const GroupShape& shape, const WorldOptions& options)
      : shape_(shape), tuning_(options.tuning), model_(shape, options.costs) {}

  /// Throws Error(Usage) if the caller requests a method that this group does not support.
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
