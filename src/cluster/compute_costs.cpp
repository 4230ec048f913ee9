#include "trireme/compute_costs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace trireme {
namespace {

void check_kernel(const KernelCost& cost, std::vector<std::string>& found) {
  for (const double term : cost.terms()) {
    if (!std::isfinite(term) || term < 0) {
      found.push_back(fmt::format("{} of {}: a cost of {} s; it must be a time of at least 0",
                                  cost.kernel, cost.dtype, term));
      return;
    }
  }
  if (std::ranges::all_of(cost.terms(), [](double term) { return term == 0; })) {
    found.push_back(fmt::format("{} of {} costs nothing", cost.kernel, cost.dtype));
  }
}

}  // namespace

std::array<double, 5> KernelCost::terms() const {
  return {call.count, flop.count, first.count, others.count, results.count};
}

const ComputeSetting* ComputeCosts::find(int ranks, int threads) const {
  const auto found = std::ranges::find_if(settings, [&](const ComputeSetting& setting) {
    return setting.ranks == ranks && setting.threads == threads;
  });
  return found == settings.end() ? nullptr : &*found;
}

std::vector<std::string> problems(const ComputeCosts& costs) {
  std::vector<std::string> found;
  if (costs.settings.empty()) {
    found.emplace_back("compute has no settings");
  }
  for (const ComputeSetting& setting : costs.settings) {
    if (setting.ranks < 1 || setting.threads < 1) {
      found.push_back(fmt::format("compute: {} ranks with {} threads; both must be at least 1",
                                  setting.ranks, setting.threads));
    }
    for (const KernelCost& cost : setting.kernels) {
      check_kernel(cost, found);
    }
  }
  return found;
}

}  // namespace trireme
