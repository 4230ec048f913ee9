// CoordinatorLocator: where the coordinator listens: a fixed address, or what etcd has recorded, which changes when another
// candidate is elected. A thread of its own asks etcd. Callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "ps/membership/etcd.h"

namespace trireme::ps {

class CoordinatorLocator {
 public:
  /// "10.0.0.1:7000", or "etcd://…" and its files as for parse_etcd_location(). Throws Error(Usage).
  explicit CoordinatorLocator(const std::string& where, const TlsFiles& etcd_tls = {});
  ~CoordinatorLocator();
  CoordinatorLocator(const CoordinatorLocator&) = delete;
  CoordinatorLocator& operator=(const CoordinatorLocator&) = delete;

  /// The address, if it is new since the last call with the same `seen`, which starts at 0: several callers each have
  /// one.
  [[nodiscard]] std::optional<std::string> take_change(std::uint64_t& seen) const;
  /// Why no coordinator was found, for a message: "etcd at 10.0.0.1:2379: no answer in time"; empty if one was.
  [[nodiscard]] std::string problem() const;

 private:
  void run(const EtcdLocation& location);
  void note(std::optional<std::string> address, std::string problem);

  mutable Mutex mutex_;
  CondVar stopped_;
  std::string address_ TRIREME_GUARDED_BY(mutex_);        ///< the last that was found
  std::uint64_t changes_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< of address_
  std::string problem_ TRIREME_GUARDED_BY(mutex_);
  bool is_stopping_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;  ///< only with etcd
};

}  // namespace trireme::ps
