#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include "backend/cpu/kernel.h"
#include "base/cores.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"

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

/// Dedicated pages, huge ones if available, zero-initialized.
class HostPages : public DeviceMemory {
 public:
  explicit HostPages(Bytes bytes)
      : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(bytes.count, 1))) {
    void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
      throw Error(ErrorKind::System, fmt::format("cannot get {} of memory: {}", to_text(bytes),
                                                 std::generic_category().message(errno)));
    }
    (void)madvise(pages, bytes_, MADV_HUGEPAGE);  // only a hint
    data_ = static_cast<std::byte*>(pages);
  }
  ~HostPages() override { munmap(data_, bytes_); }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  [[nodiscard]] std::byte* data() override { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : loops_(options.instructions == Instructions::Widest ? widest_loops()
                                                            : loops_for(options.instructions)) {
    const std::vector<int> cores = allowed_core_ids();
    threads_ = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(cores.size()));
    const bool pin = options.pinned && threads_ <= static_cast<int>(cores.size());
    omp_set_num_threads(threads_);
    if (pin && threads_ > 1) {
#pragma omp parallel
      { pin_thread_to(cores[static_cast<std::size_t>(omp_get_thread_num())]); }
    }
  }

  [[nodiscard]] std::string name() const override {
    return fmt::format("cpu, {} thread{}", threads_, threads_ == 1 ? "" : "s");
  }
  [[nodiscard]] double machine_share() const override {
    return static_cast<double>(threads_) / usable_cores();
  }
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override {
    return std::make_unique<HostPages>(bytes);
  }
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    std::ranges::copy(from, to);
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    std::copy_n(from, to.size(), to.data());
  }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) override {
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
  void synchronize() override {}

 private:
  std::span<const KernelRow> loops_;
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

std::function<std::unique_ptr<Device>(int ranks)> cpu_devices(int threads) {
  return [threads](int ranks) {
    CpuOptions options;
    options.threads = threads;
    if (ranks > 1) {
      options.threads = threads > 0 ? threads : std::max(1, usable_cores() / ranks);
      options.pinned = false;
    }
    return make_cpu_device(options);
  };
}

}  // namespace trireme
