// The strategies of ps:…: the model and the optimizer's state are on parameter servers. In each step a worker pulls the
// model, or uses its copy if it is recent enough, and pushes its gradient. With K workers, S servers, g bytes of
// gradients and m bytes of model, in each step
//
//              sends     receives
//   worker     g         m
//   server     K m / S   K g / S
//   together   K (g + m)
//
// A gradient is clipped by its own norm before the push: no process sees the whole averaged gradient.
#pragma once

#include <memory>

#include "train/sync/sync_strategy.h"
#include "trireme/sync.h"

namespace trireme::train {

/// The trainer's update is split from its step. Collective. Throws Error(Peer) if the servers do not answer.
[[nodiscard]] std::unique_ptr<SyncStrategy> make_server_steps(const SyncSpec& spec,
                                                              const WorkerPlace& place);

}  // namespace trireme::train
