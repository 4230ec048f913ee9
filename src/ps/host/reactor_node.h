// ReactorNode: a reactor of a parameter server: a thread with a listener, a state machine and shards of its own. It shares
// nothing that changes with the other reactors, so a request is handled on the thread that read it. Start and stop from
// one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ps/host/event_loop.h"
#include "ps/host/snapshot_files.h"
#include "ps/host/snapshot_writer.h"
#include "ps/membership/coordinator_locator.h"
#include "ps/protocol/server.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

/// Of all reactors of a server.
struct ServerContext {
  ParameterServerOptions options;
  std::shared_ptr<const UpdateRegistry> updates;
  std::optional<StoredSnapshot> restored;
  CoordinatorLocator locator;
};

class ReactorNode {
 public:
  /// Is listening when it returns. `server` must outlive it.
  ReactorNode(const ServerContext& server, std::size_t reactor);
  ~ReactorNode();
  ReactorNode(const ReactorNode&) = delete;
  ReactorNode& operator=(const ReactorNode&) = delete;

  [[nodiscard]] std::string address() const { return loop_.address(); }
  void start();
  /// Waits for the thread.
  void stop() { loop_.stop(); }

  /// Asks the coordinator to give its shards to others.
  void leave() { is_leaving_ = true; }
  /// After leave(): whether it has no shards any more, nobody can take them, or the coordinator does not answer.
  [[nodiscard]] bool may_stop() const { return may_stop_; }

 private:
  [[nodiscard]] ServerOptions machine_options() const;
  [[nodiscard]] std::string initial_state(ShardId shard, std::uint64_t origin) const;
  void store_snapshots(Outbox& out);
  void find_coordinator();
  void advance_leaving(Micros now);

  const ServerContext& server_;
  NodeId id_;
  EventLoop loop_;
  Server machine_;
  std::uint64_t located_ = 0;  ///< changes of the coordinator's address
  std::optional<SnapshotWriter> writer_;
  std::atomic<bool> is_leaving_ = false;
  std::atomic<bool> may_stop_ = false;
  Micros leased_ = 0;  ///< when it had a lease last, since it began to leave
};

}  // namespace trireme::ps
