// SnapshotWriter: stores the shards of a server on a thread of its own, one after the other, so that a slow disk does not
// delay heartbeats. All functions from one thread.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "ps/protocol/snapshot.h"

namespace trireme::ps {

class SnapshotWriter {
 public:
  explicit SnapshotWriter(std::string folder);
  /// Finishes what it is writing.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  /// Whether it can take a job.
  [[nodiscard]] bool is_idle() const;
  /// Requires is_idle().
  void start(SnapshotJob job);

  struct Outcome {
    SnapshotWritten written;
    std::string problem;  ///< why it could not be written; "" if it was
  };
  /// Of the last job, once.
  [[nodiscard]] std::optional<Outcome> take_outcome();

 private:
  void run();

  std::string folder_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<SnapshotJob> job_ TRIREME_GUARDED_BY(mutex_);
  std::optional<Outcome> outcome_ TRIREME_GUARDED_BY(mutex_);
  bool is_stopping_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace trireme::ps
