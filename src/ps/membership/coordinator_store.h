// CoordinatorStore: where the coordinator's state is kept, so that a later life continues with it. One thread at a time.
#pragma once

#include <string>

namespace trireme::ps {

class CoordinatorStore {
 public:
  CoordinatorStore() = default;
  virtual ~CoordinatorStore() = default;
  CoordinatorStore(const CoordinatorStore&) = delete;
  CoordinatorStore& operator=(const CoordinatorStore&) = delete;

  /// For messages: "'coordinator.state'".
  [[nodiscard]] virtual std::string name() const = 0;
  /// What was stored last; empty: nothing was. Call it once, first.
  [[nodiscard]] virtual std::string load() = 0;
  /// The state survives when it returns. Throws Error.
  virtual void store(const std::string& state) = 0;
  /// Throws Error if another coordinator may have begun.
  virtual void require_valid() = 0;
};

}  // namespace trireme::ps
