#include "ps/host/coordinator_life.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "ps/host/node_metrics.h"
#include "ps/host/node_options.h"
#include "ps/host/snapshot_files.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

Epoch unix_micros() {
  return static_cast<Epoch>(std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
}

EventLoopOptions life_options(const ParameterCoordinatorOptions& options,
                              std::function<void(const std::string&)> stopped) {
  EventLoopOptions loop = loop_options(NodeId::Coordinator, options, false);
  loop.stopped = std::move(stopped);
  return loop;
}

}  // namespace

CoordinatorLife::CoordinatorLife(ParameterCoordinatorOptions options,
                                 std::function<void(const std::string&)> stopped)
    : options_(std::move(options)),
      updates_(or_built_in(options_.updates)),
      loop_(life_options(options_, std::move(stopped))) {}

CoordinatorLife::~CoordinatorLife() {
  stop();
}

void CoordinatorLife::start(CoordinatorStore& store) {
  store_ = &store;
  const CoordinatorOptions options = machine_options();
  const std::string state = store.load();
  require_same_cluster(state);
  machine_.emplace(options, *updates_, micros_now(), state);
  loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                Outbox& out) { machine_->handle(envelope, now, out); },
               .tick = [this](Micros now, Outbox& out) { machine_->tick(now, out); },
               .before_sending =
                   [this] {
                     save_state();
                     store_->require_valid();
                     save_snapshot();
                   },
               .metrics =
                   [this](Micros, std::vector<MetricSample>& samples) {
                     append_metrics(*machine_, last_snapshot_, samples);
                   }});
}

/// A restored cluster continues with epochs that nobody has seen: the snapshot does not know those that came after it, but
/// they grow slower than time in microseconds.
CoordinatorOptions CoordinatorLife::machine_options() {
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

void CoordinatorLife::require_same_cluster(const std::string& state) const {
  if (state.empty() || origin_ == 0) {
    return;
  }
  require(Coordinator({}, *updates_, 0, state).origin() == origin_,
          fmt::format("{} is the state of another cluster than the one to be restored: remove it "
                      "to restore, or continue without restoring",
                      store_->name()));
}

void CoordinatorLife::save_state() {
  if (machine_->version() != saved_version_) {
    store_->store(machine_->durable());
    saved_version_ = machine_->version();
  }
}

/// A disk that is full costs a snapshot, not the cluster.
void CoordinatorLife::save_snapshot() {
  const std::uint64_t number = machine_->snapshot_number();
  try {
    if (number != std::exchange(begun_snapshot_, number)) {
      begin_snapshot(options_.snapshots.folder, number);
    }
    if (const std::optional<SnapshotManifest> complete = machine_->take_snapshot()) {
      finish_snapshot(options_.snapshots.folder, *complete);
      last_snapshot_ = number;
    }
  } catch (const std::exception& error) {
    if (options_.on_refused) {
      options_.on_refused(fmt::format("snapshot {}: {}", number, error.what()));
    }
  }
}

}  // namespace trireme::ps
