#include "simulate/shared_cores.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace trireme::simulate {
namespace {

/// How long ranks take whole turns. Three ranks that computed for 1 to 40 ms and then synchronized, on two cores of Linux
/// 6.18, took twice that time up to 10 ms, and never lost more than 5 ms against fair shares.
constexpr double kWholeTurns = 10e-3;
/// A shorter pause does not let the operating system rearrange the ranks.
constexpr double kShortPause = 100e-6;

}  // namespace

void CoreTimeline::use(double start, double end, double cores) {
  if (end > start) {
    changes_[start] += cores;
    changes_[end] -= cores;
  }
}

/// 1 if exactly all cores are in use; more if more are requested, less if some are idle.
double CoreTimeline::slowness(double used) const {
  const double all = cores_.cores;
  const double one = std::min<double>(cores_.threads, all);
  if (used >= all) {
    return used / all;
  }
  const double alone = 1 / cores_.speedup_alone;
  return used <= one ? alone : alone + (1 - alone) * (used - one) / (all - one);
}

bool CoreTimeline::is_crowded(double used) const {
  return used > cores_.cores + 1e-6;
}

void CoreTimeline::continue_with(double simulated, double slowness) {
  const Point& last = points_.back();
  points_.push_back(
      {simulated, last.host + (simulated - last.simulated) * last.slowness, slowness});
}

void CoreTimeline::integrate() {
  points_.push_back({0, 0, 1});
  double used = 0;
  double uncrowded_since = 0;
  double fair_from = 0;  // while crowded
  for (auto change = changes_.begin(); change != changes_.end(); ++change) {
    const double now = change->first;
    const bool was_crowded = is_crowded(used);
    used += change->second;
    if (!is_crowded(used)) {
      uncrowded_since = was_crowded ? now : uncrowded_since;
      continue_with(now, used > 1e-6 ? slowness(used) : 1);
      continue;
    }
    if (!was_crowded && (now == 0 || now - uncrowded_since > kShortPause)) {
      fair_from = now + kWholeTurns;
    }
    if (now < fair_from) {
      continue_with(now, std::ceil(slowness(used) - 1e-6));
    }
    const auto next = std::next(change);
    if (next != changes_.end() && fair_from < next->first) {
      continue_with(std::max(now, fair_from), slowness(used));
    }
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
