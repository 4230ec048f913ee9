#include "trireme/schedule_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trireme::simulate {
namespace {

/// A schedule with more messages than this is not verified.
constexpr std::int64_t kMaxFollowed = 2'000'000;

bool is_followable(const Schedule& schedule, const Traffic& traffic) {
  const std::int64_t words = (schedule.ranks + 63) / 64;  // of a set of contributions
  const double state = static_cast<double>(schedule.ranks) * static_cast<double>(schedule.blocks) *
                       static_cast<double>(words) * 8;
  return traffic.messages <= kMaxFollowed && state < 256.0 * (1 << 20);
}

std::string block_text(const Schedule& schedule, Block block) {
  if (schedule.layout == Layout::Pairs) {
    return fmt::format("{}>{}", block / schedule.ranks, block % schedule.ranks);
  }
  return fmt::format("{}", block);
}

}  // namespace

CostModel cluster_costs(const Cluster& cluster) {
  CostModel costs{{}, cluster.gamma};
  for (const Link& link : cluster.links) {
    costs.levels.push_back({link.reach, link.alpha, link.beta});
  }
  if (costs.levels.empty()) {  // a single device
    costs.levels.push_back({.span = 0, .alpha = {0}, .beta = {0}});
  }
  costs.levels.back().span = 0;
  return costs;
}

std::string blocks_text(const Schedule& schedule, std::span<const BlockRun> runs) {
  std::int64_t count = 0;
  std::vector<std::string> parts;
  for (const BlockRun& run : runs) {
    count += run.count;
    if (run.count > 1 && run.stride == 1 && schedule.layout != Layout::Pairs) {
      parts.push_back(fmt::format("{}-{}", run.first, run.first + run.count - 1));
    } else if (parts.size() < 8) {
      for (Block k = 0; k < std::min<Block>(run.count, 8); ++k) {
        parts.push_back(block_text(schedule, run.first + k * run.stride));
      }
    }
  }
  return parts.size() > 4 ? fmt::format("[{} blocks]", count)
                          : fmt::format("{}", fmt::join(parts, ","));
}

ScheduleReport make_schedule_report(Schedule schedule, const Payload& payload,
                                    const CostModel& costs) {
  ScheduleReport report;
  report.schedule = std::move(schedule);
  report.payload = report.schedule.operation == Operation::Barrier ? Payload{0, 1} : payload;
  report.costs = costs;
  report.timing = time_schedule(report.schedule, report.payload, costs);
  report.traffic = count_traffic(report.schedule, report.payload);
  report.lower_bound =
      lower_bound(report.schedule.operation, report.schedule.ranks, report.payload, costs);
  if (is_followable(report.schedule, report.traffic)) {
    report.problems = problems(report.schedule);
    report.port_conflict = find_port_conflict(report.schedule);
    report.scratch_blocks = scratch_blocks(report.schedule);
  }
  return report;
}

ScheduleReport make_schedule_report(const ScheduleRecipe& recipe, const Payload& payload,
                                    const CostModel& costs) {
  const auto& [operation, algorithm, options] = recipe;
  ScheduleReport report =
      make_schedule_report(build(operation, algorithm, options), payload, costs);
  const auto bytes = static_cast<double>(report.payload.elements * report.payload.element_bytes);
  report.formula = formula_text(operation, algorithm);
  report.formula_seconds = formula(operation, algorithm, options).at(bytes, costs);
  if (properties(algorithm).segmented) {
    report.formula += fmt::format(", k = {}", options.segments);
  }
  return report;
}

NetworkReport make_network_report(const ScheduleReport& report, Topology topology,
                                  Switching switching) {
  const LinkLevel& link = report.costs.levels.front();
  NetworkReport network;
  network.topology = std::move(topology);
  network.costs = {link.alpha, link.beta, report.costs.gamma, switching};
  network.timing = time_on(network.topology, report.schedule, report.payload, network.costs);
  return network;
}

}  // namespace trireme::simulate
