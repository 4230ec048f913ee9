// CoordinatorCandidate: one of several processes that can be the coordinator. It stands by until it is elected in etcd, is the
// coordinator while its leadership lasts, and then stands by again. Runs on threads of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "ps/host/coordinator_life.h"
#include "ps/membership/etcd.h"
#include "ps/membership/leadership.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

class CoordinatorCandidate {
 public:
  /// Throws Error(Usage), or Error(System) if it could not listen.
  explicit CoordinatorCandidate(ParameterCoordinatorOptions options);
  /// Gives the leadership up.
  ~CoordinatorCandidate();
  CoordinatorCandidate(const CoordinatorCandidate&) = delete;
  CoordinatorCandidate& operator=(const CoordinatorCandidate&) = delete;

  /// Where it listens when it is elected, as in its options.
  [[nodiscard]] const std::string& address() const { return options_.listen; }

 private:
  void run() noexcept;
  void stand_and_serve();
  [[nodiscard]] std::unique_ptr<CoordinatorLife> make_life();
  [[nodiscard]] std::string serve(Leadership& leadership);
  void report(CoordinatorRole role, const std::string& address) const;
  void log(const std::string& what) const;

  ParameterCoordinatorOptions options_;
  EtcdLocation location_;
  std::unique_ptr<CoordinatorLife> life_;  ///< of thread_
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::string why_ended_ TRIREME_GUARDED_BY(mutex_);  ///< the life
  std::thread thread_;
};

}  // namespace trireme::ps
