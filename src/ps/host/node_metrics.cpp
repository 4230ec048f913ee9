#include "ps/host/node_metrics.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace trireme::ps {
namespace {

double number(bool value) {
  return value ? 1 : 0;
}

enum Role : std::uint8_t { Head, Middle, Tail, Learner };
constexpr std::array<std::string_view, 4> kRoles{"head", "middle", "tail", "learner"};

/// The only member of a chain is its tail, which serves pulls.
Role role_of(const View& view, NodeId server) {
  if (!view.has_member(server)) {
    return Learner;
  }
  if (view.chain.back().server == server) {
    return Tail;
  }
  return view.chain.front().server == server ? Head : Middle;
}

}  // namespace

void append_metrics(const Coordinator& coordinator, std::uint64_t last_snapshot,
                    std::vector<MetricSample>& samples) {
  samples.push_back({"healthy", "", number(coordinator.is_healthy())});
  samples.push_back({"servers_alive", "", static_cast<double>(coordinator.live_servers())});
  samples.push_back({"workers", "", static_cast<double>(coordinator.workers())});
  for (std::size_t i = 0; i < coordinator.shards().size(); ++i) {
    samples.push_back(
        {"epoch", fmt::format("{}", i), static_cast<double>(coordinator.shards()[i].view.epoch)});
  }
  for (std::size_t i = 0; i < coordinator.tables().size(); ++i) {
    if (const auto slowest = coordinator.slowest(static_cast<TableId>(i))) {
      samples.push_back(
          {"slowest_clock", coordinator.tables()[i].name, static_cast<double>(*slowest)});
    }
  }
  samples.push_back({"snapshot", "", static_cast<double>(last_snapshot)});
}

void append_metrics(const Server& server, Micros now, std::vector<MetricSample>& samples) {
  std::array<double, kRoles.size()> roles{};
  double unsynced = 0;
  for (const auto& [shard, replica] : server.replicas()) {
    ++roles.at(role_of(replica->view(), server.options().id));
    unsynced += number(replica->progress() != Progress::Synced);
    samples.push_back({"applied_pushes", fmt::format("{}", static_cast<std::uint32_t>(shard)),
                       static_cast<double>(replica->applied())});
  }
  for (std::size_t i = 0; i < roles.size(); ++i) {
    samples.push_back({"replicas", std::string(kRoles.at(i)), roles.at(i)});
  }
  samples.push_back({"unsynced_replicas", "", unsynced});
  samples.push_back({"lease_valid", "", number(server.has_lease(now))});
}

}  // namespace trireme::ps
