#include "trireme/host_costs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "cluster/check_time.h"

namespace trireme {
namespace {

class HostCostsVerifier {
 public:
  explicit HostCostsVerifier(const HostCosts& host) : host_(host) {}

  std::vector<std::string> run() {
    if (host_.cores < 1) {
      add("cores is {}; it must be at least 1", host_.cores);
    }
    for (const MessageCost& cost : host_.messages) {
      check_message(cost.transport, cost);
    }
    for (const CombineCost& cost : host_.combining) {
      check_time("gamma of " + cost.dtype, cost.gamma);
    }
    check_time("stage", host_.stage);
    check_time("fetch", host_.fetch);
    if (host_.cached) {
      check_time("cached stage", host_.cached->write);
      check_time("cached fetch", host_.cached->read);
    }
    check_message("peek", host_.peek);
    check_waits();
    check_curve("copy", host_.copy);
    check_curve("combine", host_.combine);
    if (host_.compute) {
      std::ranges::copy(problems(*host_.compute), std::back_inserter(problems_));
    }
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_message(const std::string& what, const MessageCost& cost) {
    check_time("alpha of " + what, cost.alpha);
    check_time("beta of " + what, cost.beta);
    std::int64_t shorter = 0;
    for (const MessagePoint& point : cost.points) {
      if (point.bytes.count <= shorter) {
        add("{}: a message of {} bytes after one of {}; they must rise", what, point.bytes.count,
            shorter);
      }
      shorter = point.bytes.count;
      check_time("one_way of " + what, point.one_way);
      check_time("exchange of " + what, point.exchange);
    }
  }

  void check_waits() {
    int fewer = 1;
    for (const RendezvousCost& cost : host_.waits) {
      if (cost.ranks <= fewer) {
        add("waits of {} ranks after those of {}; they must rise from 2", cost.ranks, fewer);
      }
      fewer = cost.ranks;
      check_time(fmt::format("the first wait of {} ranks", cost.ranks), cost.first);
      check_time(fmt::format("the next wait of {} ranks", cost.ranks), cost.next);
    }
    if (host_.waits.empty()) {
      add("there are no waits");
    }
  }

  void check_curve(const std::string& what, const std::vector<MemoryCost>& curve) {
    std::int64_t smaller = 0;
    for (const MemoryCost& point : curve) {
      if (point.footprint.count <= smaller) {
        add("{}: a footprint of {} bytes after {}; they must rise", what, point.footprint.count,
            smaller);
      }
      smaller = point.footprint.count;
      check_time(what + " alone", point.alone);
      check_time(what + " together", point.together);
    }
    if (curve.empty()) {
      add("{} has no points", what);
    }
  }

  void check_time(const std::string& what, Seconds time) {
    trireme::check_time(problems_, what, time);
  }

  const HostCosts& host_;
  std::vector<std::string> problems_;
};

}  // namespace

MessagePoint MessageCost::at(Bytes bytes) const {
  const auto length = static_cast<double>(bytes.count);
  if (points.size() < 2) {
    const Seconds time{alpha.count + length * beta.count};
    return {bytes, time, time};
  }
  const auto longer = std::ranges::find_if(
      points, [&](const MessagePoint& point) { return point.bytes.count >= bytes.count; });
  const auto above = std::clamp(longer, points.begin() + 1, points.end() - 1);
  const MessagePoint& low = *(above - 1);
  const auto first = static_cast<double>(low.bytes.count);
  // No shorter message takes less than the shortest measured one.
  const double part =
      std::max(0.0, (length - first) / (static_cast<double>(above->bytes.count) - first));
  const auto between = [&](Seconds a, Seconds b) {
    return Seconds{std::max(0.0, a.count + part * (b.count - a.count))};
  };
  return {bytes, between(low.one_way, above->one_way), between(low.exchange, above->exchange)};
}

bool HostCosts::stages_cached() const {
  return cached && cached->write.count + cached->read.count < stage.count + fetch.count;
}

PassCost HostCosts::passing() const {
  return stages_cached() ? *cached : PassCost{stage, fetch};
}

Seconds HostCosts::gamma(std::string_view dtype) const {
  const auto of = [&](std::string_view name) {
    return std::ranges::find(combining, name, &CombineCost::dtype);
  };
  const auto found = of(dtype) != combining.end() ? of(dtype) : of("f32");
  return found == combining.end() ? Seconds{} : found->gamma;
}

const MessageCost* HostCosts::messages_by(std::string_view transport) const {
  const auto found = std::ranges::find(messages, transport, &MessageCost::transport);
  return found == messages.end() ? nullptr : &*found;
}

RendezvousCost HostCosts::wait_of(int ranks) const {
  const auto enough =
      std::ranges::find_if(waits, [&](const RendezvousCost& wait) { return wait.ranks >= ranks; });
  if (enough != waits.end()) {
    return *enough;
  }
  const double factor = static_cast<double>(ranks) / waits.back().ranks;
  return {ranks, {waits.back().first.count * factor}, {waits.back().next.count * factor}};
}

std::vector<std::string> problems(const HostCosts& costs) {
  return HostCostsVerifier(costs).run();
}

}  // namespace trireme
