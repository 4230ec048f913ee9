#include "trireme/kernel_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "cost/smooth_max.h"
#include "cost/word.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// How much longer tensor cores take for operands whose rows are not aligned to 16 bytes: loads are half as wide for each
/// factor of two that is missing. From vTrain's profiles with a vocabulary of 50257 words, whole or in halves, quarters
/// and eighths.
double alignment_penalty(double size) {
  constexpr std::int64_t kAligned = 8;  // elements of 16 bits
  constexpr double kHalfWidthLoads = 1.4;
  double penalty = 1;
  for (std::int64_t width = kAligned; width > 1 && std::fmod(size, width) != 0; width /= 2) {
    penalty *= kHalfWidthLoads;
  }
  return penalty;
}

}  // namespace

KernelRates::KernelRates(const DeviceSpec& device, const Efficiency& efficiency,
                         std::string_view dtype)
    : eff_(efficiency) {
  const std::optional<FlopRate> peak = device.peak(dtype);
  const std::optional<FlopRate> bf16 = device.peak("bf16");
  const std::optional<FlopRate> peak16 = bf16 ? bf16 : device.peak("f16");
  if (!peak || !device.memory_bandwidth) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the {} of {} is not known; {}give it in a cluster file (--cluster FILE), "
                    "which trireme probe --output writes for this host",
                    peak ? "memory bandwidth" : fmt::format("{} peak", dtype), device.name,
                    !peak && device.peak("f32") ? "use --dtype f32, or " : ""));
  }
  peak_ = peak->count;
  peak16_ = std::min(peak_, peak16 ? peak16->count : peak_);
  matmul_rate_ = peak_ * (dtype == "f4"                    ? eff_.matmul4
                          : dtype == "f8" || dtype == "i8" ? eff_.matmul8
                                                           : eff_.matmul);
  bandwidth_ = device.memory_bandwidth->count;
  word_ = word_of(dtype);
}

double KernelRates::moving(double bytes) const {
  return bytes / (bandwidth_ * eff_.memory);
}

double KernelRates::fused_attention(double flops) const {
  return flops / (peak16_ * eff_.attention);
}

double KernelRates::score_products(double flops) const {
  return flops / (peak16_ * eff_.scores);
}

/// What filling tiles and the last, partly filled wave of tiles over the multiprocessors cost, as a factor. Where a
/// product has few tiles, K is split as well: then there are more of them, each with less to do between filling and
/// draining.
double KernelRates::tile_overhead(double m, double n, double k) const {
  constexpr int kMaxSplit = 16;
  if (eff_.units == 0) {
    return 1 + eff_.depth / k;
  }
  const double full = std::ceil(m / eff_.tile_rows) * std::ceil(n / eff_.tile_columns) / eff_.units;
  double best = std::numeric_limits<double>::infinity();
  for (int split = 1; split <= kMaxSplit; split *= 2) {
    const double waves = std::ceil(full * split) / (full * split);
    best = std::min(best, waves * (1 + eff_.depth * split / k));
  }
  return best * alignment_penalty(m) * alignment_penalty(n) * alignment_penalty(k);
}

double KernelRates::matmul(double m, double n, double k) const {
  const double compute = 2 * m * n * k / matmul_rate_ * tile_overhead(m, n, k);
  return smooth_max(compute, moving(word_ * (m * k + k * n + m * n)));
}

}  // namespace trireme
