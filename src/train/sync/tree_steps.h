// The tree strategy: a parameter server whose clients form a binary tree. In each step gradients go up and are summed
// along the tree; worker 0 updates the model, which goes down. With K workers, g bytes of gradients and m bytes of
// model:
//
//              sends     receives
//   leaf       g         m
//   inner      g + 2m    2g + m
//   worker 0   2m        2g
//   together   (K-1)(g + m), in O(log K) rounds
//
// (Only a worker with two children; the last inner one may have a single child.)
#pragma once

#include <memory>
#include <span>

#include "train/sync/sync_strategy.h"
#include "trireme/comm.h"

namespace trireme::train {

/// The sum over all workers, at worker 0; the others' elements are undefined afterwards. Collective.
void reduce_up(Group& workers, std::span<float> gradients);
/// Everyone gets worker 0's model. Collective.
void broadcast_down(Group& workers, std::span<float> model);

/// The trainer's update is split from its step.
[[nodiscard]] std::unique_ptr<SyncStrategy> make_tree_steps(const WorkerPlace& place);

}  // namespace trireme::train
