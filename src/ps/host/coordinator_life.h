// CoordinatorLife: the coordinator's state machine on an event loop, from the stored state until it is stopped or may not
// act any more. Start and stop from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ps/host/event_loop.h"
#include "ps/membership/coordinator_store.h"
#include "ps/protocol/coordinator.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

class CoordinatorLife {
 public:
  /// Is listening when it returns, but answers nobody yet. `stopped` is called, on another thread, when it cannot continue.
  CoordinatorLife(ParameterCoordinatorOptions options,
                  std::function<void(const std::string& why)> stopped);
  ~CoordinatorLife();
  CoordinatorLife(const CoordinatorLife&) = delete;
  CoordinatorLife& operator=(const CoordinatorLife&) = delete;

  [[nodiscard]] std::string address() const { return loop_.address(); }
  /// Continues with what is stored. `store` must outlive the life, or stop(). Throws Error(Input) if the state or the
  /// snapshot is damaged.
  void start(CoordinatorStore& store);
  /// Waits until it has.
  void stop() { loop_.stop(); }

 private:
  [[nodiscard]] CoordinatorOptions machine_options();
  void require_same_cluster(const std::string& state) const;
  void save_state();
  void save_snapshot();

  ParameterCoordinatorOptions options_;
  std::shared_ptr<const UpdateRegistry> updates_;
  EventLoop loop_;
  CoordinatorStore* store_ = nullptr;  ///< of start()
  std::uint64_t origin_ = 0;
  std::optional<Coordinator> machine_;
  std::uint64_t saved_version_ = 0;
  std::uint64_t begun_snapshot_ = 0;
  std::uint64_t last_snapshot_ = 0;  ///< complete
};

}  // namespace trireme::ps
