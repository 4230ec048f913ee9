// The coordinator and the servers of parameter_server.h: their state machines on event loops.
#include "trireme/parameter_server.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "comm/net/address.h"
#include "comm/net/secret.h"
#include "ps/host/event_loop.h"
#include "ps/host/node_metrics.h"
#include "ps/host/snapshot_files.h"
#include "ps/host/snapshot_writer.h"
#include "ps/protocol/coordinator.h"
#include "ps/protocol/server.h"
#include "trireme/files.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

/// As parse_address(), but port 0 is allowed: any free one.
comm::Address parse_listen_address(const std::string& text) {
  if (!text.ends_with(":0")) {
    return comm::parse_address(text);
  }
  comm::Address address = comm::parse_address(text.substr(0, text.size() - 1) + "1");
  address.port = 0;
  return address;
}

template <class Options>
EventLoopOptions loop_options(NodeId self, const Options& options, bool shares_memory) {
  return {.reactor = {.self = self,
                      .listen = parse_listen_address(options.listen),
                      .secret = comm::Secret::from_text(options.secret),
                      .encryption = options.encrypt == Encrypt::Yes ? comm::Encryption::Tls
                                                                    : comm::Encryption::None,
                      .shares_memory = shares_memory},
          .refused = options.on_refused,
          .stopped = options.on_stopped};
}

std::shared_ptr<const UpdateRegistry> or_built_in(std::shared_ptr<const UpdateRegistry> updates) {
  return updates ? std::move(updates) : std::make_shared<const UpdateRegistry>();
}

std::optional<StoredSnapshot> snapshot_to_restore(const SnapshotOptions& options) {
  return options.restore.empty() ? std::nullopt : std::optional(open_snapshot(options.restore));
}

Epoch unix_micros() {
  return static_cast<Epoch>(std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
}

Incarnation random_incarnation() {
  std::random_device device;
  return (static_cast<Incarnation>(device()) << 32) | device();
}

}  // namespace

class ParameterCoordinator::Impl {
 public:
  explicit Impl(ParameterCoordinatorOptions options)
      : options_(std::move(options)),
        updates_(or_built_in(options_.updates)),
        loop_(loop_options(NodeId::Coordinator, options_, false)),
        machine_(machine_options(), *updates_, micros_now(), saved_state()) {
    loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                  Outbox& out) { machine_.handle(envelope, now, out); },
                 .tick = [this](Micros now, Outbox& out) { machine_.tick(now, out); },
                 .before_sending =
                     [this] {
                       save_state();
                       save_snapshot();
                     },
                 .metrics =
                     [this](Micros, std::vector<MetricSample>& samples) {
                       append_metrics(machine_, last_snapshot_, samples);
                     }});
  }

  [[nodiscard]] std::string address() const { return loop_.address(); }
  void stop() { loop_.stop(); }

 private:
  [[nodiscard]] CoordinatorOptions machine_options();
  [[nodiscard]] std::string saved_state() const;
  void save_state();
  void save_snapshot();

  ParameterCoordinatorOptions options_;
  std::shared_ptr<const UpdateRegistry> updates_;
  EventLoop loop_;
  std::uint64_t origin_ = 0;
  Coordinator machine_;
  std::uint64_t saved_version_ = 0;
  std::uint64_t begun_snapshot_ = 0;
  std::uint64_t last_snapshot_ = 0;  ///< complete
};

/// A restored cluster continues with epochs that nobody has seen: the snapshot does not know those that came after it, but
/// they grow slower than time in microseconds.
CoordinatorOptions ParameterCoordinator::Impl::machine_options() {
  CoordinatorOptions options{.shards = options_.shards,
                             .replicas = options_.replicas,
                             .min_servers = options_.min_servers,
                             .timing = timing_for(options_.lease)};
  if (const auto snapshot = snapshot_to_restore(options_.snapshots)) {
    verify_snapshot(*snapshot);
    options.shards = static_cast<std::uint32_t>(snapshot->manifest.parts.size());
    for (const TableEntry& entry : snapshot->manifest.tables) {
      options.tables.push_back(entry.spec);
    }
    options.first_epoch = std::max(snapshot->manifest.epoch + 1, unix_micros());
    options.origin = origin_ = snapshot->origin;
  }
  if (const std::string& folder = options_.snapshots.folder; !folder.empty()) {
    options.snapshot_every = static_cast<Micros>(options_.snapshots.every.count * 1e6);
    options.first_snapshot = last_snapshot_number(folder) + 1;
  }
  return options;
}

std::string ParameterCoordinator::Impl::saved_state() const {
  if (options_.state_file.empty() || !std::filesystem::exists(options_.state_file)) {
    return {};
  }
  std::string state = read_file(options_.state_file);
  const std::uint64_t origin = Coordinator({}, *updates_, 0, state).origin();
  require(origin_ == 0 || origin == origin_,
          fmt::format("'{}' is the state of another cluster than the one to be restored: remove it "
                      "to restore, or continue without restoring",
                      options_.state_file));
  return state;
}

void ParameterCoordinator::Impl::save_state() {
  if (machine_.version() != saved_version_ && !options_.state_file.empty()) {
    saved_version_ = machine_.version();
    write_file(options_.state_file, machine_.durable());
  }
}

/// A disk that is full costs a snapshot, not the cluster.
void ParameterCoordinator::Impl::save_snapshot() {
  const std::uint64_t number = machine_.snapshot_number();
  try {
    if (number != std::exchange(begun_snapshot_, number)) {
      begin_snapshot(options_.snapshots.folder, number);
    }
    if (const std::optional<SnapshotManifest> complete = machine_.take_snapshot()) {
      finish_snapshot(options_.snapshots.folder, *complete);
      last_snapshot_ = number;
    }
  } catch (const std::exception& error) {
    if (options_.on_refused) {
      options_.on_refused(fmt::format("snapshot {}: {}", number, error.what()));
    }
  }
}

ParameterCoordinator::ParameterCoordinator(ParameterCoordinatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterCoordinator::~ParameterCoordinator() {
  impl_->stop();
}

std::string ParameterCoordinator::address() const {
  return impl_->address();
}

class ParameterServer::Impl {
 public:
  explicit Impl(ParameterServerOptions options)
      : options_(std::move(options)),
        updates_(or_built_in(options_.updates)),
        restored_(snapshot_to_restore(options_.snapshots)),
        loop_(loop_options(server_node(options_.number), options_, options_.shares_memory)),
        machine_(machine_options(), *updates_) {
    if (!options_.snapshots.folder.empty()) {
      writer_.emplace(options_.snapshots.folder);
    }
    loop_.set_address(NodeId::Coordinator, options_.coordinator);
    loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                  Outbox& out) { machine_.handle(envelope, now, out); },
                 .tick =
                     [this](Micros now, Outbox& out) {
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

  ParameterServerOptions options_;
  std::shared_ptr<const UpdateRegistry> updates_;
  std::optional<StoredSnapshot> restored_;
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
