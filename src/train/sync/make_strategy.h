// Creates synchronization strategies. One thread at a time per worker.
#pragma once

#include <memory>

#include "train/sync/sync_strategy.h"
#include "trireme/sync.h"

namespace trireme::train {

/// All of the place must outlive the strategy; the trainers of all workers have the same model. Collective. Throws
/// Error(Usage) if the model cannot be exchanged.
[[nodiscard]] std::unique_ptr<SyncStrategy> make_sync_strategy(const SyncSpec& spec,
                                                               const WorkerPlace& place);

}  // namespace trireme::train
