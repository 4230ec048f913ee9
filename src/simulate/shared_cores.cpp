#include "simulate/shared_cores.h"

#include <algorithm>
#include <iterator>

namespace trireme::simulate {

void CoreTimeline::use(double start, double end, double cores) {
  if (end > start) {
    changes_[start] += cores;
    changes_[end] -= cores;
  }
}

/// 1 if exactly all cores are in use; more if more are asked for, less if some are idle.
double CoreTimeline::slowness(double used) const {
  const double all = cores_.cores;
  const double one = std::min<double>(cores_.threads, all);
  if (used >= all) {
    return used / all;
  }
  const double alone = 1 / cores_.speedup_alone;
  return used <= one ? alone : alone + (1 - alone) * (used - one) / (all - one);
}

void CoreTimeline::integrate() {
  points_.push_back({0, 0, 1});
  double used = 0;
  for (const auto& [time, change] : changes_) {
    const Point& last = points_.back();
    const double host = last.host + (time - last.simulated) * last.slowness;
    used += change;
    points_.push_back({time, host, used > 1e-6 ? slowness(used) : 1});
  }
}

double CoreTimeline::host_time(double simulated) {
  if (points_.empty()) {
    integrate();
  }
  const auto after = std::ranges::upper_bound(points_, simulated, {}, &Point::simulated);
  const Point& last = *std::prev(after);
  return last.host + (simulated - last.simulated) * last.slowness;
}

}  // namespace trireme::simulate
