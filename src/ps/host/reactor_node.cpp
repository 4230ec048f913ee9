#include "ps/host/reactor_node.h"

#include <random>
#include <utility>

#include <fmt/format.h>

#include "ps/host/node_metrics.h"
#include "ps/host/node_options.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

Incarnation random_incarnation() {
  std::random_device device;
  return (static_cast<Incarnation>(device()) << 32) | device();
}

EventLoopOptions reactor_options(const ParameterServerOptions& options, std::size_t reactor) {
  EventLoopOptions loop =
      loop_options(server_node(options.number, reactor), options, options.shares_memory);
  comm::Address& listen = *loop.reactor.listen;
  listen.port = static_cast<std::uint16_t>(listen.port == 0 ? 0 : listen.port + reactor);
  return loop;
}

}  // namespace

ReactorNode::ReactorNode(const ServerContext& server, std::size_t reactor)
    : server_(server),
      id_(server_node(server.options.number, reactor)),
      loop_(reactor_options(server.options, reactor)),
      machine_(machine_options(), *server.updates) {
  if (!server.options.snapshots.folder.empty()) {
    writer_.emplace(server.options.snapshots.folder);
  }
}

ReactorNode::~ReactorNode() {
  stop();
}

void ReactorNode::start() {
  find_coordinator();
  loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                Outbox& out) { machine_.handle(envelope, now, out); },
               .tick =
                   [this](Micros now, Outbox& out) {
                     find_coordinator();
                     advance_leaving(now);
                     machine_.tick(now, out);
                     store_snapshots(out);
                   },
               .connected = [this](NodeId node, Micros now) { machine_.reconnected(node, now); },
               .addresses = [this] { return &machine_.addresses(); },
               .metrics =
                   [this](Micros now, std::vector<MetricSample>& samples) {
                     append_metrics(machine_, now, samples);
                   }});
}

ServerOptions ReactorNode::machine_options() const {
  ServerOptions options{.id = id_,
                        .incarnation = random_incarnation(),
                        .reactors = static_cast<std::uint32_t>(server_.options.reactors),
                        .address = loop_.address(),
                        .timing = timing_for(server_.options.lease)};
  if (server_.restored) {
    options.initial_state = [this](ShardId shard, std::uint64_t origin) {
      return initial_state(shard, origin);
    };
  }
  return options;
}

std::string ReactorNode::initial_state(ShardId shard, std::uint64_t origin) const {
  require(origin == server_.restored->origin,
          fmt::format("the cluster was restored from another snapshot than '{}': start this server "
                      "with the same one",
                      server_.restored->path));
  return read_snapshot_part(*server_.restored, shard);
}

void ReactorNode::find_coordinator() {
  if (const std::optional<std::string> address = server_.locator.take_change(located_)) {
    loop_.redirect(NodeId::Coordinator, *address);
  }
}

void ReactorNode::advance_leaving(Micros now) {
  constexpr int kSilentLeases = 4;
  if (!is_leaving_) {
    return;
  }
  machine_.leave();
  leased_ = machine_.has_lease(now) || leased_ == 0 ? now : leased_;
  may_stop_ =
      machine_.is_released() || now - leased_ > kSilentLeases * machine_.options().timing.lease;
}

void ReactorNode::store_snapshots(Outbox& out) {
  if (!writer_) {
    return;
  }
  if (const auto outcome = writer_->take_outcome()) {
    if (outcome->problem.empty()) {
      machine_.snapshot_written(outcome->written, out);
    } else if (server_.options.on_refused) {
      server_.options.on_refused(outcome->problem);
    }
  }
  if (writer_->is_idle()) {
    if (std::optional<SnapshotJob> job = machine_.next_snapshot()) {
      writer_->start(std::move(*job));
    }
  }
}

}  // namespace trireme::ps
