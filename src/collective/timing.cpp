// Exact timing of schedules in lock step with one port each way, and the traffic counters.
#include <algorithm>
#include <utility>

#include "trireme/collective_cost.h"

namespace trireme {
namespace {

/// The busy time of each rank's two ports in one step.
class Ports {
 public:
  explicit Ports(Rank ranks)
      : sending_(static_cast<std::size_t>(ranks)), receiving_(static_cast<std::size_t>(ranks)) {}

  void add(const Message& m, double send, double receive) {
    double& out = sending_[static_cast<std::size_t>(m.from)];
    double& in = receiving_[static_cast<std::size_t>(m.to)];
    out += send;
    in += receive;
    busiest_ = std::max({busiest_, out, in});
    touched_.push_back(m.from);
    touched_.push_back(m.to);
  }

  /// The busiest port's time; everything starts again at 0.
  double take_busiest() {
    for (const Rank rank : touched_) {
      sending_[static_cast<std::size_t>(rank)] = 0;
      receiving_[static_cast<std::size_t>(rank)] = 0;
    }
    touched_.clear();
    return std::exchange(busiest_, 0.0);
  }

 private:
  std::vector<double> sending_;
  std::vector<double> receiving_;
  std::vector<Rank> touched_;
  double busiest_ = 0;
};

}  // namespace

CostModel CostModel::uniform(Seconds alpha, Seconds beta, Seconds gamma) {
  return {{LinkLevel{0, alpha, beta}}, gamma};
}

const LinkLevel& CostModel::between(Rank a, Rank b) const {
  for (const LinkLevel& level : levels) {
    if (level.span == 0 || a / level.span == b / level.span) {
      return level;
    }
  }
  return levels.back();
}

Timing time_schedule(const Schedule& schedule, const Payload& payload, const CostModel& costs) {
  Timing timing;
  timing.steps.reserve(schedule.steps.size());
  Ports ports(schedule.ranks);
  for (const Step& step : schedule.steps) {
    for_each_message(step, [&](const Message& m) {
      const auto bytes = static_cast<double>(element_count(schedule, payload.elements, m.blocks) *
                                             payload.element_bytes);
      const LinkLevel& link =
          costs.is_uniform() ? costs.levels.front() : costs.between(m.from, m.to);
      const double send = link.alpha.count + bytes * link.beta.count;
      ports.add(m, send, m.action == Action::Combine ? send + bytes * costs.gamma.count : send);
    });
    timing.steps.push_back({ports.take_busiest()});
    timing.seconds.count += timing.steps.back().count;
  }
  return timing;
}

Traffic count_traffic(const Schedule& schedule, const Payload& payload) {
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  Traffic traffic;
  traffic.rounds = static_cast<std::int64_t>(schedule.steps.size());
  traffic.sent.resize(ranks);
  traffic.received.resize(ranks);
  std::int64_t peak = 0;
  std::vector<std::int64_t> out(ranks);
  std::vector<std::int64_t> in(ranks);
  for (const Step& step : schedule.steps) {
    std::ranges::fill(out, 0);
    std::ranges::fill(in, 0);
    std::vector<bool> sends(ranks);
    for_each_message(step, [&](const Message& m) {
      const std::int64_t bytes =
          element_count(schedule, payload.elements, m.blocks) * payload.element_bytes;
      const auto from = static_cast<std::size_t>(m.from);
      const auto to = static_cast<std::size_t>(m.to);
      peak = std::max({peak, out[from] += bytes, in[to] += bytes});
      traffic.sent[from].count += bytes;
      traffic.received[to].count += bytes;
      traffic.bytes_total.count += bytes;
      ++traffic.messages;
      sends[from] = true;
    });
    traffic.busy_senders.push_back(static_cast<Rank>(std::ranges::count(sends, true)));
  }
  const auto whole = static_cast<double>(payload.elements * payload.element_bytes);
  if (whole > 0) {
    traffic.peak = static_cast<double>(peak) / whole;
    traffic.total = static_cast<double>(traffic.bytes_total.count) / whole;
  }
  return traffic;
}

}  // namespace trireme
