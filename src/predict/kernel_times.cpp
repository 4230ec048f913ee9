#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "trireme/error.h"
#include "trireme/kernel_costs.h"

namespace trireme::predict {
namespace {

/// The row of a kernel, else of any kernel of its type, else of any in f32; nullptr if there is none.
const KernelCost* row_of(const ComputeSetting& setting, const KernelWork& work) {
  const auto find = [&](std::string_view kernel, std::string_view dtype) {
    const auto found = std::ranges::find_if(setting.kernels, [&](const KernelCost& cost) {
      return cost.kernel == kernel && cost.dtype == dtype;
    });
    return found == setting.kernels.end() ? nullptr : &*found;
  };
  const bool product = work.kernel.starts_with("einsum");
  const std::string_view like = product ? "einsum nn" : "*";
  for (const std::string_view dtype : {std::string_view{work.dtype}, std::string_view{"f32"}}) {
    for (const std::string_view kernel :
         {std::string_view{work.kernel}, like, std::string_view{"*"}}) {
      if (const KernelCost* row = find(kernel, dtype)) {
        return row;
      }
    }
  }
  return nullptr;
}

bool is_fixed(const KernelCost& cost) {
  return cost.kernel == kStart || cost.kernel == kBackground;
}

double time_in(const ComputeSetting& setting, const KernelWork& work) {
  const KernelCost* row = row_of(setting, work);
  if (row == nullptr) {
    throw Error(ErrorKind::Usage,
                fmt::format("the probe of this host has no cost of {} in {}; run 'trireme probe'",
                            work.kernel, work.dtype));
  }
  const std::array<double, 5> terms = row->terms();
  double time = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    time += terms[i] * work.factors[i];
  }
  return time;
}

/// How much longer kernels take while all cores compute than while one does: the median over the matrix products and
/// other kernels that both settings have, each at a typical size.
double slowdown(const ComputeSetting& alone, const ComputeSetting& together) {
  std::vector<double> ratios;
  for (const KernelCost& cost : alone.kernels) {
    if (is_fixed(cost)) {
      continue;
    }
    const bool product = cost.kernel.starts_with("einsum");
    const double bytes = 256.0 * 1024;
    const KernelWork typical{.kernel = cost.kernel,
                             .dtype = cost.dtype,
                             .factors = {1, product ? 64 * bytes : bytes, bytes, bytes, bytes}};
    ratios.push_back(time_in(together, typical) / time_in(alone, typical));
  }
  return std::max(1.0, median(std::move(ratios)));
}

}  // namespace

KernelTimes::KernelTimes(const ComputeCosts& costs, int cores, const HostShare& share) {
  if (costs.settings.empty()) {
    throw Error(ErrorKind::Usage,
                "the probe of this host measured no kernels; run 'trireme probe'");
  }
  for (const ComputeSetting& setting : costs.settings) {
    std::ranges::copy_if(setting.kernels, std::back_inserter(fixed_), is_fixed);
  }
  const ComputeSetting* whole = costs.find(1, cores);
  const ComputeSetting* together = costs.find(cores, 1);
  const ComputeSetting* alone = costs.find(1, 1);
  if (whole == nullptr || together == nullptr || alone == nullptr) {
    parts_.push_back({costs.settings.front(), 1});
    return;
  }
  const int threads = std::clamp(share.threads, 1, cores);
  const double width = cores > 1 ? std::log(threads) / std::log(cores) : 0;
  parts_ = {{*whole, width}, {*together, 1 - width}};
  if (threads == cores) {
    return;
  }
  // With idle cores, part of the way towards the speed of a rank alone.
  const double ratio = slowdown(*alone, *together);
  const double busy = std::min(1.0, static_cast<double>(share.ranks * threads - 1) / (cores - 1));
  factor_ = busy + (1 - busy) / ratio;
  speedup_alone_ = ratio * factor_;
}

Seconds KernelTimes::fixed(std::string_view row) const {
  const auto found = std::ranges::find(fixed_, row, &KernelCost::kernel);
  return found == fixed_.end() ? Seconds{} : found->call;
}

Seconds KernelTimes::time(const KernelWork& work) const {
  double log_time = 0;
  for (const Part& part : parts_) {
    log_time += part.weight > 0 ? part.weight * std::log(time_in(part.setting, work)) : 0;
  }
  return {factor_ * std::exp(log_time)};
}

}  // namespace trireme::predict
