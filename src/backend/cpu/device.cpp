#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "backend/cpu/kernel.h"
#include "base/cores.h"
#include "base/enum_names.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/host_device.h"

namespace trireme {
namespace cpu {
namespace {

std::span<const KernelRow> loops_for(Instructions instructions) {
  switch (instructions) {
#if defined(__x86_64__)
    case Instructions::Avx512:
      return avx512::loop_kernels();
    case Instructions::Avx2:
      return avx2::loop_kernels();
#endif
    case Instructions::Baseline:
      return baseline::loop_kernels();
    default:
      return {};
  }
}

/// Widest first.
constexpr std::array kInstructionSets{Instructions::Avx512, Instructions::Avx2,
                                      Instructions::Baseline};

/// Throws Error(System) if this program was built for other processors.
std::span<const KernelRow> widest_loops() {
  const auto* widest = std::ranges::find_if(kInstructionSets, has_instructions);
  if (widest == kInstructionSets.end()) {
    throw Error(ErrorKind::System,
                "this program was built for another processor: build it with "
                "-DTRIREME_CPU_LOOPS=all, or on this machine");
  }
  return loops_for(*widest);
}

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : loops_(options.instructions == Instructions::Widest ? widest_loops()
                                                            : loops_for(options.instructions)),
        row_invariant_(options.row_invariant) {
    const std::vector<int> cores = allowed_core_ids();
    threads_ = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(cores.size()));
    const bool pin = options.pinned && threads_ <= static_cast<int>(cores.size());
    omp_set_num_threads(threads_);
    if (pin && threads_ > 1) {
#pragma omp parallel
      { pin_thread_to(cores[omp_get_thread_num()]); }
    }
  }

  [[nodiscard]] std::string name() const override {
    return fmt::format("cpu, {} thread{}", threads_, threads_ == 1 ? "" : "s");
  }
  [[nodiscard]] double machine_share() const override {
    return static_cast<double>(threads_) / usable_cores();
  }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) override {
    if (row_invariant_ && request.op->name == "einsum") {
      const auto by_rows = std::ranges::find(loops_, kEinsumByRows, &KernelRow::op);
      if (auto prepared = by_rows->prepare(request)) {
        return prepared;
      }
    }
    for (const std::span<const KernelRow> table : {library_kernels(), loops_}) {
      const auto row = std::ranges::find(table, request.op->name, &KernelRow::op);
      if (row != table.end()) {
        if (auto prepared = row->prepare(request)) {
          return prepared;
        }
      }
    }
    return reference_kernel(request);
  }

 private:
  std::span<const KernelRow> loops_;
  bool row_invariant_;
  int threads_ = 1;
};

}  // namespace

bool has_kernel(std::string_view op) {
  return std::ranges::any_of(std::array{library_kernels(), widest_loops()},
                             [&](std::span<const KernelRow> table) {
                               return std::ranges::find(table, op, &KernelRow::op) != table.end();
                             });
}

}  // namespace cpu

bool has_instructions(Instructions instructions) {
  if (instructions == Instructions::Widest) {
    return true;
  }
  if (cpu::loops_for(instructions).empty()) {
    return false;
  }
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (instructions == Instructions::Avx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  if (instructions == Instructions::Avx2) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#endif
  return true;
}

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  if (!has_instructions(options.instructions)) {
    throw Error(ErrorKind::Usage, "this processor or this build lacks the requested instructions");
  }
  return std::make_unique<cpu::CpuDevice>(options);
}

DeviceFactory cpu_devices(int threads) {
  CpuOptions options;
  options.threads = threads;
  return cpu_devices(options);
}

DeviceFactory cpu_devices(const CpuOptions& options) {
  return [options](const RankOnHost& place) {
    CpuOptions own = options;
    if (place.ranks > 1) {
      own.threads = own.threads > 0 ? own.threads : std::max(1, usable_cores() / place.ranks);
      own.pinned = false;
    }
    return make_cpu_device(own);
  };
}

std::string_view to_text(Instructions instructions) {
  static constexpr auto kNames = enum_names<Instructions>("widest", "baseline", "avx2", "avx512");
  return kNames[instructions];
}

}  // namespace trireme
