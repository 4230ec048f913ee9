// Rooflines, MFU and HFU, run times, bytes per parameter.
#include <algorithm>
#include <bit>
#include <cmath>

#include "trireme/estimate.h"

namespace trireme {

double matmul_intensity(double m, double n, double k, double element_bytes) {
  return 2 * m * n * k / ((m * k + k * n + m * n) * element_bytes);
}

double elementwise_intensity(double flops_per_element, double element_bytes) {
  return flops_per_element / (2 * element_bytes);
}

std::string_view to_text(Bound bound) {
  return bound == Bound::Compute ? "compute" : "memory";
}

FlopRate Roofline::attainable(double intensity) const noexcept {
  return {std::min(peak.count, intensity * bandwidth.count)};
}

Seconds Roofline::time(double flops, double bytes) const noexcept {
  return {std::max(flops / peak.count, bytes / bandwidth.count)};
}

Bound Roofline::bound(double flops, double bytes) const noexcept {
  return flops / peak.count >= bytes / bandwidth.count ? Bound::Compute : Bound::Memory;
}

std::optional<Roofline> roofline_of(const DeviceSpec& device, std::string_view dtype) {
  const std::optional<FlopRate> peak = device.peak(dtype);
  if (!peak || !device.memory_bandwidth) {
    return std::nullopt;
  }
  return Roofline{*peak, *device.memory_bandwidth};
}

double utilization(double flops, Seconds time, FlopRate peak, double devices) {
  return flops / time.count / (devices * peak.count);
}

double mfu_over_hfu(double rho) {
  return 3 / (3 + rho);
}

std::optional<TypicalMfu> typical_mfu(std::string_view device) {
  if (device.starts_with("v100")) {
    return TypicalMfu{.low = 0.40, .high = 0.50, .note = "40 to 50 %"};
  }
  if (device.starts_with("a100")) {
    return TypicalMfu{.low = 0.40, .high = 0.60, .note = "40 %, 60 % since FlashAttention"};
  }
  if (device == "h100") {
    return TypicalMfu{.low = 0.30, .high = 0.50, .note = "30 to 50 %, by the size of the model"};
  }
  return std::nullopt;
}

Seconds run_time(double flops, FlopRate peak, double mfu, double devices) {
  return {flops / (peak.count * mfu * devices)};
}

double devices_needed(double flops, FlopRate peak, double mfu, Seconds time) {
  return std::ceil(flops / (peak.count * mfu * time.count));
}

const std::vector<MemoryRecipe>& memory_recipes() {
  static const std::vector<MemoryRecipe> recipes{
      // The optimizer keeps a copy of the parameters and two moments, all in f32.
      {.name = "Adam, mixed precision", .parameters = 2, .gradients = 2, .optimizer = 12},
      {.name = "Adam, f32", .parameters = 4, .gradients = 4, .optimizer = 8},
      {.name = "Adam, bf16 throughout", .parameters = 2, .gradients = 2, .optimizer = 4},
      {.name = "SGD, f32", .parameters = 4, .gradients = 4, .optimizer = 0},
      {.name = "inference, bf16", .parameters = 2, .gradients = 0, .optimizer = 0},
  };
  return recipes;
}

Seconds server_time(int workers, double bytes, ByteRate bandwidth) {
  return {2 * workers * bytes / bandwidth.count};
}

Seconds tree_server_time(int workers, double bytes, ByteRate bandwidth) {
  const auto levels = static_cast<int>(std::bit_width(static_cast<unsigned>(workers))) - 1;
  return {4 * levels * bytes / bandwidth.count};
}

Seconds ring_time(int workers, double bytes, ByteRate bandwidth) {
  return {2.0 * (workers - 1) / workers * bytes / bandwidth.count};
}

}  // namespace trireme
