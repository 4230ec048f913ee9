// The coordinator and the servers of parameter_server.h: their state machines on event loops.
#include "trireme/parameter_server.h"

#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "ps/host/coordinator_candidate.h"
#include "ps/host/coordinator_life.h"
#include "ps/host/event_loop.h"
#include "ps/host/node_metrics.h"
#include "ps/host/node_options.h"
#include "ps/host/snapshot_files.h"
#include "ps/host/snapshot_writer.h"
#include "ps/membership/coordinator_locator.h"
#include "ps/membership/file_store.h"
#include "ps/protocol/server.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

Incarnation random_incarnation() {
  std::random_device device;
  return (static_cast<Incarnation>(device()) << 32) | device();
}

}  // namespace

/// The only coordinator, or a candidate.
class ParameterCoordinator::Impl {
 public:
  explicit Impl(const ParameterCoordinatorOptions& options) : file_(options.state_file) {
    if (!options.membership.empty()) {
      require(options.state_file.empty(),
              "a coordinator keeps its state in a file or in etcd, not in both");
      candidate_.emplace(options);
      return;
    }
    life_.emplace(options, options.on_stopped);
    life_->start(file_);
    if (options.on_role) {
      options.on_role(CoordinatorRole::Active, life_->address());
    }
  }

  [[nodiscard]] std::string address() const {
    return candidate_ ? candidate_->address() : life_->address();
  }

 private:
  FileStore file_;
  std::optional<CoordinatorLife> life_;
  std::optional<CoordinatorCandidate> candidate_;
};

ParameterCoordinator::ParameterCoordinator(const ParameterCoordinatorOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

ParameterCoordinator::~ParameterCoordinator() = default;

std::string ParameterCoordinator::address() const {
  return impl_->address();
}

class ParameterServer::Impl {
 public:
  explicit Impl(ParameterServerOptions options)
      : options_(std::move(options)),
        updates_(or_built_in(options_.updates)),
        restored_(snapshot_to_restore(options_.snapshots)),
        locator_(options_.coordinator),
        loop_(loop_options(server_node(options_.number), options_, options_.shares_memory)),
        machine_(machine_options(), *updates_) {
    if (!options_.snapshots.folder.empty()) {
      writer_.emplace(options_.snapshots.folder);
    }
    find_coordinator();
    loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                  Outbox& out) { machine_.handle(envelope, now, out); },
                 .tick =
                     [this](Micros now, Outbox& out) {
                       find_coordinator();
                       machine_.tick(now, out);
                       store_snapshots(out);
                     },
                 .addresses = [this] { return &machine_.addresses(); },
                 .metrics =
                     [this](Micros now, std::vector<MetricSample>& samples) {
                       append_metrics(machine_, now, samples);
                     }});
  }

  [[nodiscard]] std::string address() const { return loop_.address(); }
  void stop() { loop_.stop(); }

 private:
  [[nodiscard]] ServerOptions machine_options() const;
  [[nodiscard]] std::string initial_state(ShardId shard, std::uint64_t origin) const;
  void store_snapshots(Outbox& out);
  void find_coordinator();

  ParameterServerOptions options_;
  std::shared_ptr<const UpdateRegistry> updates_;
  std::optional<StoredSnapshot> restored_;
  CoordinatorLocator locator_;
  EventLoop loop_;
  Server machine_;
  std::optional<SnapshotWriter> writer_;
};

ServerOptions ParameterServer::Impl::machine_options() const {
  ServerOptions options{.id = server_node(options_.number),
                        .incarnation = random_incarnation(),
                        .address = loop_.address(),
                        .timing = timing_for(options_.lease)};
  if (restored_) {
    options.initial_state = [this](ShardId shard, std::uint64_t origin) {
      return initial_state(shard, origin);
    };
  }
  return options;
}

std::string ParameterServer::Impl::initial_state(ShardId shard, std::uint64_t origin) const {
  require(origin == restored_->origin,
          fmt::format("the cluster was restored from another snapshot than '{}': start this server "
                      "with the same one",
                      restored_->path));
  return read_snapshot_part(*restored_, shard);
}

void ParameterServer::Impl::find_coordinator() {
  if (const std::optional<std::string> address = locator_.take_change()) {
    loop_.redirect(NodeId::Coordinator, *address);
  }
}

void ParameterServer::Impl::store_snapshots(Outbox& out) {
  if (!writer_) {
    return;
  }
  if (const auto outcome = writer_->take_outcome()) {
    if (outcome->problem.empty()) {
      machine_.snapshot_written(outcome->written, out);
    } else if (options_.on_refused) {
      options_.on_refused(outcome->problem);
    }
  }
  if (writer_->is_idle()) {
    if (std::optional<SnapshotJob> job = machine_.next_snapshot()) {
      writer_->start(std::move(*job));
    }
  }
}

ParameterServer::ParameterServer(ParameterServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterServer::~ParameterServer() {
  impl_->stop();
}

std::string ParameterServer::address() const {
  return impl_->address();
}

}  // namespace trireme::ps
