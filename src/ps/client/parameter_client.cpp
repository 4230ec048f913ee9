// The client of parameter_server.h.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ps/client/client_core.h"
#include "trireme/error.h"
#include "trireme/valid.h"

namespace trireme::ps {

PendingOperation::PendingOperation(std::shared_ptr<ClientCore> core,
                                   std::shared_ptr<Operation> operation)
    : core_(std::move(core)), operation_(std::move(operation)) {}

PendingOperation::~PendingOperation() {
  if (operation_) {
    core_->abandon(*operation_);
  }
}

PendingOperation::PendingOperation(PendingOperation&&) noexcept = default;

PendingOperation& PendingOperation::operator=(PendingOperation&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(operation_, other.operation_);
  return *this;
}

bool PendingOperation::is_done() {
  return core_->is_done(*operation_);
}

void PendingOperation::wait() {
  core_->wait(*operation_);
}

Seconds PendingOperation::took() const {
  return core_->took(*operation_);
}

ParameterClient::ParameterClient(const ParameterClientOptions& options)
    : core_(std::make_shared<ClientCore>(options)) {
  core_->join();
}

ParameterClient::~ParameterClient() = default;

TableHandle ParameterClient::create_table(const TableSpec& spec) {
  require_valid(spec);
  const comm::Deadline deadline = comm::deadline_in(core_->options().patience);
  bool is_known = false;
  std::string refusal;
  while (!is_known && refusal.empty() && !comm::passed(deadline)) {
    core_->with_client(
        [&](Client& client, Micros, Outbox& out) { client.create_table(spec, out); });
    is_known = core_->wait_until(comm::deadline_in({0.2}), [&](const Client& client) {
      const auto at = client.refusals().find(spec.name);
      refusal = at == client.refusals().end() ? "" : at->second;
      return client.find_table(spec.name).has_value() || !refusal.empty();
    });
  }
  if (!refusal.empty()) {
    throw Error(ErrorKind::Usage, refusal);
  }
  if (!is_known) {
    throw Error(ErrorKind::Peer, core_->describe(fmt::format("creating table '{}'", spec.name)));
  }
  return core_->with_client([&](Client& client, Micros, Outbox&) {
    const TableId id = *client.find_table(spec.name);
    if (client.table(id) != spec) {
      throw Error(ErrorKind::Usage,
                  fmt::format("table '{}' exists with other settings", spec.name));
    }
    return TableHandle{static_cast<std::uint32_t>(id), spec.width};
  });
}

PendingOperation ParameterClient::push(TableHandle table, const Keys& keys,
                                       std::span<const float> gradient) {
  return {core_, core_->begin({table, keys, gradient, {}})};
}

PendingOperation ParameterClient::pull(TableHandle table, const Keys& keys,
                                       std::span<float> values) {
  return {core_, core_->begin({table, keys, {}, values})};
}

PendingOperation ParameterClient::push_pull(TableHandle table, const Keys& keys,
                                            std::span<const float> gradient,
                                            std::span<float> values) {
  return {core_, core_->begin({table, keys, gradient, values})};
}

void ParameterClient::iterate(TableHandle table, const Keys& keys, const Compute& compute) {
  std::vector<float> values(keys.count() * table.width);
  pull(table, keys, values).wait();
  std::vector<float> gradient(values.size());
  compute(values, gradient);
  push(table, keys, gradient).wait();
}

bool ParameterClient::wait_to_start(TableHandle table, Seconds patience) {
  const auto id = static_cast<TableId>(table.id);
  core_->with_client([&](Client& client, Micros now, Outbox& out) {
    if (!client.slowest(id)) {
      client.join_clock(id, now, out);
    }
  });
  std::string refusal;
  const bool may_start = core_->wait_until(comm::deadline_in(patience), [&](const Client& client) {
    const auto at = client.refusals().find(kLeaseSubject);
    refusal = at == client.refusals().end() ? "" : at->second;
    return client.may_start(id, ClientCore::micros()) || !refusal.empty();
  });
  if (!refusal.empty()) {
    throw Error(ErrorKind::Usage, refusal);
  }
  return may_start;
}

void ParameterClient::start_iteration(TableHandle table) {
  if (!wait_to_start(table, core_->options().patience)) {
    throw Error(ErrorKind::Peer, core_->describe("waiting for the slowest worker"));
  }
}

void ParameterClient::complete_iteration(TableHandle table) {
  core_->with_client([&](Client& client, Micros now, Outbox& out) {
    client.complete_iteration(static_cast<TableId>(table.id), now, out);
  });
}

void ParameterClient::advance_clock(TableHandle table, ClockCount to) {
  core_->with_client([&](Client& client, Micros now, Outbox& out) {
    client.advance_clock(static_cast<TableId>(table.id), to, now, out);
  });
}

ClockCount ParameterClient::slowest_clock(TableHandle table) const {
  return core_->with_client([&](Client& client, Micros, Outbox&) {
    return client.slowest(static_cast<TableId>(table.id)).value_or(0);
  });
}

ClockCount ParameterClient::clock(TableHandle table) const {
  return core_->with_client([&](Client& client, Micros, Outbox&) {
    return client.clock(static_cast<TableId>(table.id));
  });
}

std::map<std::uint64_t, ServerTraffic> ParameterClient::traffic() const {
  return core_->traffic();
}

std::string to_text(const ServerReactor& place) {
  return place.reactor == 0 ? fmt::format("{}", place.server)
                            : fmt::format("{}.{}", place.server, place.reactor);
}

std::string to_text(std::span<const ServerReactor> chain) {
  std::string text;
  for (const ServerReactor& place : chain) {
    text += (text.empty() ? "" : " > ") + to_text(place);
  }
  return text;
}

namespace {

ServerReactor reactor_of(const Member& member) {
  return {server_number(member.server), reactor_number(member.server)};
}

ClusterStatus status_of(const Client& client) {
  ClusterStatus status{.is_healthy = client.is_healthy(), .problems = stuck_text(client.stuck())};
  for (const auto& [node, address] : client.addresses()) {
    const ServerCondition condition = client.condition(node);
    status.servers.push_back(fmt::format(
        "{} at {}{}", to_text(node), address,
        condition == ServerCondition::Alive ? "" : fmt::format(", {}", to_text(condition))));
  }
  for (const TableSpec& table : client.tables()) {
    status.tables.push_back(fmt::format("{}: {} keys of {} floats, {}, {}", table.name, table.keys,
                                        table.width, table.update, to_text(table.consistency)));
  }
  for (std::uint32_t i = 0; i < client.shard_count(); ++i) {
    const View& view = client.view(static_cast<ShardId>(i));
    ShardPlace& place = status.shards.emplace_back(ShardPlace{view.epoch, {}, {}});
    for (const Member& member : view.chain) {
      place.chain.push_back(reactor_of(member));
    }
    if (view.learner) {
      place.learners.push_back(reactor_of(*view.learner));
    }
  }
  return status;
}

NodeMetrics metrics_of(const Client& client, NodeId node, const std::string& name) {
  const auto at = client.metrics().find(node);
  NodeMetrics metrics{.node = name, .is_up = at != client.metrics().end()};
  if (metrics.is_up) {
    for (const Metrics::Sample& entry : at->second.samples) {
      metrics.samples.push_back(entry.sample);
    }
  }
  return metrics;
}

std::vector<NodeMetrics> metrics_of(const Client& client) {
  std::vector<NodeMetrics> nodes{metrics_of(client, NodeId::Coordinator, "coordinator")};
  for (const auto& [node, address] : client.addresses()) {
    nodes.push_back(metrics_of(client, node, to_text(node)));
  }
  return nodes;
}

}  // namespace

void ParameterClient::move_shard(std::size_t shard, std::span<const std::uint64_t> servers) {
  MoveShard request{static_cast<ShardId>(shard), {servers.begin(), servers.end()}};
  core_->with_client([&](Client&, Micros, Outbox& out) {
    out.push_back({NodeId{}, NodeId::Coordinator, std::move(request)});
  });
}

ClusterStatus ParameterClient::status() {
  const auto ask = [](Client& client, Micros now, Outbox& out) {
    client.ask_for_state(now, out);
    return client.states_received();
  };
  const auto states = core_->with_client(ask);
  const comm::Deadline deadline = comm::deadline_in(core_->options().patience);
  const auto is_fresh = [&](const Client& client) { return client.states_received() > states; };
  while (!core_->wait_until(std::min(deadline, comm::deadline_in({0.05})), is_fresh)) {
    if (comm::passed(deadline)) {
      throw Error(ErrorKind::Peer, core_->describe("the cluster's status"));
    }
    (void)core_->with_client(ask);
  }
  return core_->with_client([](Client& client, Micros, Outbox&) { return status_of(client); });
}

std::vector<NodeMetrics> ParameterClient::metrics(Seconds patience) {
  core_->with_client([](Client& client, Micros, Outbox&) { client.forget_metrics(); });
  const comm::Deadline deadline = comm::deadline_in(patience);
  const auto have_all = [](const Client& client) {
    return client.metrics().size() == client.addresses().size() + 1;
  };
  do {
    core_->with_client([](Client& client, Micros, Outbox& out) { client.ask_for_metrics(out); });
  } while (!core_->wait_until(std::min(deadline, comm::deadline_in({0.1})), have_all) &&
           !comm::passed(deadline));
  return core_->with_client([](Client& client, Micros, Outbox&) { return metrics_of(client); });
}

}  // namespace trireme::ps
