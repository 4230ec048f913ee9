// SyncStrategy: how workers with their own models train one model together. It takes a worker's steps and exchanges
// with the other workers. make_strategy.h creates the one that a SyncSpec names.
//
// To add a strategy: implement this interface, or Mixer if it averages models, and add it to make_sync_strategy(). One
// thread at a time per worker.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "train/step/trainer.h"
#include "train/sync/step_board.h"
#include "trireme/comm.h"
#include "trireme/trace.h"
#include "trireme/train.h"

namespace trireme::train {

/// The effect of an exchange on this rank's shards, and its time.
struct Moved {
  double distance = 0;  ///< squared
  double length = 0;    ///< of the shards, squared
  /// On a parameter server: see ShareResult.
  double clock = -1;
  double slowest_clock = -1;
};

class SyncStrategy {
 public:
  SyncStrategy() = default;
  virtual ~SyncStrategy() = default;
  SyncStrategy(const SyncStrategy&) = delete;
  SyncStrategy& operator=(const SyncStrategy&) = delete;

  /// Before each step: waits for the data that it needs from other workers.
  virtual void begin_step() {}
  /// Runs the trainer's next step on this worker's share of the batch, with the exchanges in it. Throws CommError.
  virtual StepResult run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                              Trace* trace) = 0;
  /// After each step, counted from 1, unless it is repeated because gradients overflowed: what workers exchange between
  /// steps. Throws CommError.
  virtual Moved mix(std::int64_t step) = 0;

  /// Where this worker gets its shares for the next steps. Collective.
  [[nodiscard]] virtual std::unique_ptr<StepBoard> open_board(const Stretch& stretch) = 0;

  /// Runs `body` while the trainer has the average of the workers' models, which it does not keep. Collective.
  virtual void with_average(const std::function<void()>& body) = 0;
  /// Makes all workers continue from the average of their models and optimizer states, so that worker 0's is a
  /// checkpoint of the run. Collective.
  virtual void settle() = 0;

  /// These workers have died; the groups of the place no longer have them. `rate` is that of this worker's last step.
  /// Collective over the others. Called only if parameter servers have the model.
  virtual void continue_without(std::span<const int> /*dead*/, double /*rate*/) {}
};

/// A worker's part in its run.
struct WorkerPlace {
  Trainer& trainer;
  /// The ranks with the same shards, one of each worker. With parameter servers, only of workers that live.
  Group& workers;
  Group& all;  ///< all ranks
  const RunServers& servers;
};

}  // namespace trireme::train
