#include "simulate/communication_times.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

/// Beyond this many ranks on links of several levels, schedules with a message for each pair take too long to time.
constexpr Rank kManyRanks = 64;

/// How many consecutive members share a block of `reach` ranks: 0 if blocks differ.
Rank equal_runs(std::span<const int> members, int reach) {
  std::size_t first = 0;
  std::size_t run = 0;
  for (std::size_t i = 1; i <= members.size(); ++i) {
    if (i < members.size() && members[i] / reach == members[first] / reach) {
      continue;
    }
    if (run != 0 && i - first != run) {
      return 0;
    }
    run = i - first;
    first = i;
  }
  return static_cast<Rank>(run);
}

}  // namespace

CostModel group_costs(const Cluster& cluster, std::span<const int> members) {
  CostModel costs{{}, cluster.gamma};
  for (const Link& link : cluster.links) {
    const Rank run = equal_runs(members, link.reach);
    const bool joins_all = run == static_cast<Rank>(members.size());
    const Rank inner = costs.levels.empty() ? 1 : costs.levels.back().span;
    if (joins_all || (run > inner && run % inner == 0)) {
      costs.levels.push_back({joins_all ? 0 : run, link.alpha, link.beta});
    }
    if (joins_all) {
      return costs;
    }
  }
  costs.levels.push_back({.span = 0, .alpha = {0}, .beta = {0}});  // a single device
  return costs;
}

CommunicationTimes::CommunicationTimes(const Cluster& cluster, std::vector<Algorithm> among)
    : cluster_(cluster), among_(std::move(among)) {}

Seconds CommunicationTimes::message(int from, int to, double bytes) const {
  const Link& link = cluster_.link_between(from, to);
  return {link.alpha.count + bytes * link.beta.count};
}

bool CommunicationTimes::crosses_nodes(std::span<const int> members) const {
  return std::ranges::any_of(members, [&](int member) {
    return cluster_.node_of(member) != cluster_.node_of(members.front());
  });
}

std::vector<Algorithm> CommunicationTimes::candidates(Operation operation, Rank ranks,
                                                      const CostModel& costs) const {
  static const std::vector<Algorithm> cheap_to_time{Algorithm::Ring,
                                                    Algorithm::RecursiveDoubling,
                                                    Algorithm::RecursiveHalving,
                                                    Algorithm::TwoLevel,
                                                    Algorithm::Mst,
                                                    Algorithm::Pairwise};
  const bool few = costs.is_uniform() || ranks <= kManyRanks;
  const std::vector<Algorithm>& allowed = among_.empty() && !few ? cheap_to_time : among_;
  if (allowed.empty()) {
    return {};
  }
  std::vector<Algorithm> found;
  for (const Algorithm algorithm : algorithms_for(operation)) {
    if (std::ranges::find(allowed, algorithm) != allowed.end()) {
      found.push_back(algorithm);
    }
  }
  return found;  // empty: all that implement the operation
}

Seconds CommunicationTimes::collective(Operation operation, std::span<const int> members,
                                       Bytes bytes) {
  if (members.size() < 2) {
    return {0};
  }
  const CostModel costs = group_costs(cluster_, members);
  std::vector<Level> key;
  for (const LinkLevel& level : costs.levels) {
    key.push_back({level.span, level.alpha.count, level.beta.count});
  }
  std::unique_ptr<Selector>& selector = selectors_[std::move(key)];
  if (!selector) {
    selector = std::make_unique<Selector>(costs);
  }
  const auto ranks = static_cast<Rank>(members.size());
  const std::vector<Choice>& choices =
      selector->rank({.operation = operation,
                      .ranks = ranks,
                      .bytes = bytes,
                      .among = candidates(operation, ranks, costs)});
  TRIREME_CHECK(!choices.empty(), to_text(operation).data());
  return choices.front().predicted;
}

}  // namespace trireme::simulate
