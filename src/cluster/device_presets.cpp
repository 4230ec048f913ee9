// The devices that Trireme knows by name, as tables.
//
// Contains only numbers that a vendor's document states; the others are omitted. Vendors' GB and TB
// are powers of 1000. A vendor's "with sparsity" figure goes into the sparse column; the dense one
// is half of it.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>

#include "cluster/names.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

constexpr std::int64_t kGB = 1'000'000'000;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Peak dense_only(const char* dtype, double dense) {
  return {.dtype = dtype, .dense = FlopRate{dense}, .sparse = std::nullopt};
}

Peak both(const char* dtype, double dense, double sparse) {
  return {.dtype = dtype, .dense = FlopRate{dense}, .sparse = FlopRate{sparse}};
}

std::vector<Peak> a100_peaks() {
  return {dense_only("f64", 9.7e12),    dense_only("f64-tensor", 19.5e12),
          dense_only("f32", 19.5e12),   both("tf32", 156e12, 312e12),
          both("bf16", 312e12, 624e12), both("f16", 312e12, 624e12),
          both("i8", 624e12, 1248e12),  both("i4", 1248e12, 2496e12)};
}

std::vector<Peak> h100_peaks() {
  return {dense_only("f64", 34e12),          dense_only("f64-tensor", 67e12),
          dense_only("f32", 67e12),          both("tf32", 494.7e12, 989.4e12),
          both("bf16", 989.4e12, 1978.9e12), both("f16", 989.4e12, 1978.9e12),
          both("f8", 1978.9e12, 3957.8e12),  both("i8", 1978.9e12, 3957.8e12)};
}

std::vector<DeviceSpec> volta_to_hopper_devices() {
  return {
      {.name = "v100",
       .memory = Bytes{32 * kGB},
       .memory_bandwidth = ByteRate{900e9},
       .peaks = {dense_only("f64", 7.8e12), dense_only("f32", 15.7e12), dense_only("f16", 125e12)},
       .power = Power{300},
       .source = "NVIDIA V100 Tensor Core GPU datasheet, SXM2 column (32 GB version)"},
      {.name = "v100-pcie",
       .memory = Bytes{32 * kGB},
       .memory_bandwidth = ByteRate{900e9},
       .peaks = {dense_only("f64", 7e12), dense_only("f32", 14e12), dense_only("f16", 112e12)},
       .power = Power{250},
       .source = "NVIDIA V100 Tensor Core GPU datasheet, PCIe column (32 GB version)"},
      {.name = "a100",
       .memory = Bytes{80 * kGB},
       .memory_bandwidth = ByteRate{2039e9},
       .peaks = a100_peaks(),
       .power = Power{400},
       .source = "NVIDIA A100 Tensor Core GPU datasheet, 80GB SXM column"},
      {.name = "a100-40gb",
       .memory = Bytes{40 * kGB},
       .memory_bandwidth = ByteRate{1555e9},
       .peaks = a100_peaks(),
       .power = Power{400},
       .source = "NVIDIA A100 Tensor Core GPU datasheet, 40GB SXM column"},
      {.name = "h100",
       .memory = Bytes{80 * kGB},
       .memory_bandwidth = ByteRate{3.35e12},
       .peaks = h100_peaks(),
       .power = Power{700},
       .source = "NVIDIA H100 Tensor Core GPU datasheet, SXM column (f64, f32, memory); NVIDIA "
                 "H100 Tensor Core GPU "
                 "Architecture whitepaper, H100 SXM5 (tf32, bf16, f16, f8, i8)"},
      {.name = "h100-96gb",
       .memory = Bytes{96 * kGB},
       .memory_bandwidth = ByteRate{2.4e12},
       .peaks = h100_peaks(),
       .power = Power{500},
       .source = "torchtitan benchmarks: H100 with 96 GB of HBM2e, limited to 500 W; peaks as for "
                 "h100, which it states; the bandwidth is assumed"},
      {.name = "h200",
       .memory = Bytes{141 * kGB},
       .memory_bandwidth = ByteRate{4.8e12},
       .peaks = {dense_only("f64", 34e12), dense_only("f64-tensor", 67e12),
                 dense_only("f32", 67e12), both("tf32", 494.5e12, 989e12),
                 both("bf16", 989.5e12, 1979e12), both("f16", 989.5e12, 1979e12),
                 both("f8", 1979e12, 3958e12), both("i8", 1979e12, 3958e12)},
       .power = Power{700},
       .source = "NVIDIA H200 Tensor Core GPU datasheet, SXM column; it states the sparse peaks, "
                 "the dense ones are half"}};
}

std::vector<DeviceSpec> blackwell_devices() {
  return {
      {.name = "b100",
       .memory = Bytes{192 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {dense_only("f64", 30e12), dense_only("f32", 60e12), both("tf32", 900e12, 1800e12),
                 both("bf16", 1750e12, 3500e12), both("f16", 1750e12, 3500e12),
                 both("f8", 3500e12, 7000e12), both("f6", 3500e12, 7000e12),
                 both("f4", 7000e12, 14000e12), both("i8", 3500e12, 7000e12)},
       .source = "NVIDIA Blackwell Architecture technical brief, HGX B100 column, which says 'up "
                 "to' 192 GB and 8 TB/s; the dense peaks are half of the sparse ones"},
      {.name = "b200",
       .memory = Bytes{180 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2250e12, 4500e12), both("f16", 2250e12, 4500e12),
                 both("f8", 4500e12, 9000e12), both("f6", 4500e12, 9000e12),
                 both("f4", 9000e12, 18000e12), both("i8", 4500e12, 9000e12)},
       .source = "NVIDIA Blackwell datasheet, HGX B200 column, and DGX B200 user guide (1440 GB "
                 "for 8); it states the sparse peaks, the dense ones are half. Memory bandwidth: "
                 "DGX B200 datasheet, 64 TB/s for 8 (other documents say less). Left out because "
                 "not confirmed: tf32, f32 and f64"},
      {.name = "b300",
       .memory = Bytes{270 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2250e12, 4500e12), both("f16", 2250e12, 4500e12),
                 both("f8", 4500e12, 9000e12), both("f6", 4500e12, 9000e12),
                 dense_only("f4", 13500e12)},
       .source =
           "NVIDIA HGX B300 specifications, divided by 8; it states the sparse peaks, the dense "
           "ones are half, except for f4, for which it states both"},
      {.name = "gb200",
       .memory = Bytes{186 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2500e12, 5000e12), both("f16", 2500e12, 5000e12),
                 both("f8", 5000e12, 10000e12), both("f6", 5000e12, 10000e12),
                 both("f4", 10000e12, 20000e12)},
       .source = "NVIDIA GB200 NVL72 datasheet, divided by 72; it states the sparse peaks, the "
                 "dense ones are half"},
      {.name = "gb300",
       .memory = Bytes{279 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2500e12, 5000e12), both("f16", 2500e12, 5000e12),
                 both("f8", 5000e12, 10000e12), both("f6", 5000e12, 10000e12),
                 dense_only("f4", 15000e12)},
       .source = "NVIDIA GB300 NVL72 datasheet, divided by 72"}};
}

std::vector<DeviceSpec> other_devices() {
  return {{.name = "tpu-v3",
           .memory = Bytes{32 * kGiB},
           .memory_bandwidth = ByteRate{900e9},
           .peaks = {dense_only("bf16", 123e12)},
           .source = "Google Cloud TPU documentation, TPU v3, per chip"},
          {.name = "tpu-v4",
           .memory = Bytes{32 * kGiB},
           .memory_bandwidth = ByteRate{1200e9},
           .peaks = {dense_only("bf16", 275e12), dense_only("i8", 275e12)},
           .source = "Google Cloud TPU documentation, TPU v4, per chip"},
          {.name = "tpu-v5e",
           .memory = Bytes{16 * kGB},
           .memory_bandwidth = ByteRate{819e9},
           .peaks = {dense_only("bf16", 197e12), dense_only("i8", 393e12)},
           .source =
               "Google Cloud TPU documentation, TPU v5e, per chip (some versions of the page give "
               "the bandwidth as 800 GiB/s)"},
          {.name = "tpu-v5p",
           .memory = Bytes{95 * kGB},
           .memory_bandwidth = ByteRate{2765e9},
           .peaks = {dense_only("bf16", 459e12)},
           .source = "Google Cloud TPU documentation, TPU v5p, per chip"},
          {.name = "cpu",
           .source = "none: processors differ, so nothing is known until it is measured"}};
}

/// By generation.
std::vector<DeviceSpec> all_devices() {
  std::vector<DeviceSpec> all = volta_to_hopper_devices();
  for (const auto& more : {blackwell_devices(), other_devices()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

const std::vector<DeviceSpec>& device_table() {
  static const std::vector<DeviceSpec> table = all_devices();
  return table;
}

}  // namespace

std::vector<std::string> device_preset_names() {
  std::vector<std::string> names;
  for (const DeviceSpec& device : device_table()) {
    names.push_back(device.name);
  }
  return names;
}

std::optional<DeviceSpec> find_device_preset(std::string_view product) {
  std::string text;
  std::ranges::transform(product, std::back_inserter(text),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string best;
  for (const std::string& name : device_preset_names()) {
    const std::size_t at = text.find(name);
    const bool is_word = at != std::string::npos &&
                         (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0);
    if (is_word && name.size() > best.size()) {
      best = name;
    }
  }
  return best.empty() ? std::nullopt : std::optional(device_preset(best));
}

DeviceSpec device_preset(std::string_view name) {
  const std::string wanted = to_lower(name);
  for (const DeviceSpec& device : device_table()) {
    if (device.name == wanted) {
      return device;
    }
  }
  throw Error(ErrorKind::Usage, unknown_name("device", name, device_preset_names()));
}

}  // namespace trireme
