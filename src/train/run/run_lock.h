// One process at a time owns a run's folder. One thread at a time.
#pragma once

#include <string>

namespace trireme::train {

/// Exclusive ownership of a folder, as a lock on FOLDER/lock, which names the owner. The system releases it when the
/// process ends for any reason, so a stale owner never blocks. The file stays. Inherited by forked processes.
class RunLock {
 public:
  /// Throws Error(Usage) that names the owner if another process has it, Error(System) if the file cannot be written.
  /// Does nothing on a file system without locks.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace trireme::train
