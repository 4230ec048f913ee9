// Exact lock-step timing of schedules with one port per direction, and the traffic counters.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/indexed_vector.h"
#include "trireme/collective_cost.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The busy time of each rank's two ports in one step.
class Ports {
 public:
  explicit Ports(Rank ranks) : sending_(ranks), receiving_(ranks) {}

  void add(const Message& m, double send, double receive) {
    double& out = sending_[m.from];
    double& in = receiving_[m.to];
    out += send;
    in += receive;
    busiest_ = std::max({busiest_, out, in});
    touched_.push_back(m.from);
    touched_.push_back(m.to);
  }

  /// The busiest port's time; resets everything to 0.
  double take_busiest() {
    for (const Rank rank : touched_) {
      sending_[rank] = 0;
      receiving_[rank] = 0;
    }
    touched_.clear();
    return std::exchange(busiest_, 0.0);
  }

 private:
  IndexedVector<Rank, double> sending_;
  IndexedVector<Rank, double> receiving_;
  std::vector<Rank> touched_;
  double busiest_ = 0;
};

/// If a step consists of one rotation over all ranks with messages of equal length, every rank does
/// the same: returns the bytes of each message. So a large ring costs one lookup per step instead
/// of one per message.
std::optional<std::int64_t> bytes_of_each(const Schedule& schedule, const Step& step,
                                          const Payload& payload) {
  if (!step.transfers.empty() || step.rotations.size() != 1) {
    return std::nullopt;
  }
  const Rotation& rotation = step.rotations.front();
  const Block pieces = schedule.layout == Layout::Pairs ? schedule.ranks : schedule.blocks;
  const bool even = schedule.layout == Layout::Replicas || payload.elements % pieces == 0;
  if (!even || rotation.count != schedule.ranks || !rotation.silent.empty()) {
    return std::nullopt;
  }
  const std::int64_t block = block_extent(schedule, payload.elements, 0).length;
  std::int64_t elements = 0;
  for (const TurningRun& turning : rotation.blocks) {
    elements += block * turning.run_count;
  }
  return elements * payload.element_bytes;
}

double send_time(double bytes, const LinkLevel& link) {
  return link.alpha.count + bytes * link.beta.count;
}

double receive_time(double bytes, const LinkLevel& link, Action action, const CostModel& costs) {
  return send_time(bytes, link) + (action == Action::Combine ? bytes * costs.gamma.count : 0);
}

/// The longest message of a step; if every rank sends and receives at most one, it determines the
/// step's duration.
std::optional<std::int64_t> longest_message(const Schedule& schedule, const Step& step,
                                            const Payload& payload) {
  if (const auto bytes = bytes_of_each(schedule, step, payload)) {
    return bytes;
  }
  std::optional<std::int64_t> longest;
  for_each_message(step, [&](const Message& m) {
    longest = std::max(longest.value_or(0), message_bytes(schedule, payload, m));
  });
  return longest;
}

double step_time(const Schedule& schedule, const Step& step, const Payload& payload,
                 const CostModel& costs, Ports& ports) {
  if (costs.is_uniform() && step.transfers.empty() && step.rotations.size() == 1) {
    const std::optional<std::int64_t> bytes = longest_message(schedule, step, payload);
    return bytes ? receive_time(static_cast<double>(*bytes), costs.levels.front(),
                                step.rotations.front().action, costs)
                 : 0.0;
  }
  for_each_message(step, [&](const Message& m) {
    const auto bytes = static_cast<double>(message_bytes(schedule, payload, m));
    const LinkLevel& link = costs.between(m.from, m.to);
    ports.add(m, send_time(bytes, link), receive_time(bytes, link, m.action, costs));
  });
  return ports.take_busiest();
}

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
    timing.steps.push_back({step_time(schedule, step, payload, costs, ports)});
    timing.seconds.count += timing.steps.back().count;
  }
  return timing;
}

namespace {

/// Counts step by step. Work common to all ranks is stored once and distributed at the end.
class TrafficCounter {
 public:
  TrafficCounter(const Schedule& schedule, const Payload& payload)
      : schedule_(schedule), payload_(payload), out_(schedule.ranks), in_(schedule.ranks) {
    traffic_.rounds = static_cast<std::int64_t>(schedule.steps.size());
    traffic_.sent.resize(size());
    traffic_.received.resize(size());
  }

  Traffic run() {
    for (const Step& step : schedule_.steps) {
      if (const auto bytes = bytes_of_each(schedule_, step, payload_)) {
        count_all_alike(*bytes);
      } else {
        count(step);
      }
    }
    for (std::size_t rank = 0; rank < size(); ++rank) {
      traffic_.sent[rank].count += by_each_;
      traffic_.received[rank].count += by_each_;
    }
    const auto whole = static_cast<double>(payload_.elements * payload_.element_bytes);
    if (whole > 0) {
      traffic_.peak = static_cast<double>(peak_) / whole;
      traffic_.total = static_cast<double>(traffic_.bytes_total.count) / whole;
    }
    return std::move(traffic_);
  }

 private:
  [[nodiscard]] std::size_t size() const { return schedule_.ranks; }

  /// Everything else that is counted is at most the total.
  void add_to_total(std::int64_t bytes, std::int64_t times = 1) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(bytes, times, &product) ||
        __builtin_add_overflow(traffic_.bytes_total.count, product, &traffic_.bytes_total.count)) {
      throw Error(ErrorKind::Usage,
                  "the bytes over all links do not fit in 63 bits; take a smaller vector");
    }
  }

  void count_all_alike(std::int64_t bytes) {
    add_to_total(bytes, schedule_.ranks);
    by_each_ += bytes;
    peak_ = std::max(peak_, bytes);
    traffic_.messages += schedule_.ranks;
    traffic_.busy_senders.push_back(schedule_.ranks);
  }

  void count(const Step& step) {
    std::ranges::fill(out_, 0);
    std::ranges::fill(in_, 0);
    IndexedVector<Rank, bool> sends(schedule_.ranks);
    for_each_message(step, [&](const Message& m) {
      const std::int64_t bytes = message_bytes(schedule_, payload_, m);
      add_to_total(bytes);
      peak_ = std::max({peak_, out_[m.from] += bytes, in_[m.to] += bytes});
      traffic_.sent[m.from].count += bytes;
      traffic_.received[m.to].count += bytes;
      ++traffic_.messages;
      sends[m.from] = true;
    });
    traffic_.busy_senders.push_back(static_cast<Rank>(std::ranges::count(sends, true)));
  }

  const Schedule&
      schedule_;  // these two outlive the counter, which lives for one call of count_traffic()
  const Payload& payload_;
  Traffic traffic_;
  std::int64_t by_each_ = 0;
  std::int64_t peak_ = 0;
  IndexedVector<Rank, std::int64_t> out_;
  IndexedVector<Rank, std::int64_t> in_;
};

}  // namespace

Traffic count_traffic(const Schedule& schedule, const Payload& payload) {
  return TrafficCounter(schedule, payload).run();
}

}  // namespace trireme
