#include "trireme/compute_probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/median.h"
#include "measure/bench_page.h"
#include "program/traffic.h"
#include "tensor/container_size.h"
#include "trireme/comm.h"
#include "trireme/error.h"
#include "trireme/execution.h"
#include "trireme/kernel_costs.h"
#include "trireme/trace.h"

namespace trireme::measure {
namespace {

/// The program's kernels alone.
Program without_communication(Program program) {
  std::erase_if(program.instructions, [](const Instruction& instruction) {
    return instruction.op->communicates || instruction.op->is_view;
  });
  return program;
}

/// Numbers that no kernel stumbles over: small for parameters, positive for state, valid as an index of anything.
template <class T>
void fill(std::span<std::byte> data, const std::function<double(std::size_t)>& value) {
  for (std::size_t i = 0; i < data.size() / sizeof(T); ++i) {
    const T element = static_cast<T>(value(i));
    std::memcpy(data.data() + i * sizeof(T), &element, sizeof(T));
  }
}

std::vector<std::byte> initial_data(const Buffer& buffer) {
  std::vector<std::byte> data(container_size(size_of(buffer.type)));
  const bool is_state = buffer.origin == Origin::State;
  const auto number = [&](std::size_t i) {
    const double even = static_cast<double>(i * 2654435761U % 1000) / 1000;
    return is_state ? 1e-3 * even : 0.1 * even - 0.05;
  };
  const auto index = [](std::size_t i) { return static_cast<double>(1 + i % 7); };
  switch (buffer.type.dtype) {
    case DType::F32:
      fill<float>(data, number);
      break;
    case DType::F64:
      fill<double>(data, number);
      break;
    case DType::F16:
    case DType::BF16:
      fill<std::uint16_t>(data, [](std::size_t i) { return static_cast<double>(0x3c00 + i % 16); });
      break;
    case DType::I8:
    case DType::U8:
      fill<std::uint8_t>(data, index);
      break;
    case DType::I32:
      fill<std::int32_t>(data, index);
      break;
    case DType::I64:
      fill<std::int64_t>(data, index);
      break;
  }
  return data;
}

void fill_leaves(Execution& execution) {
  for (const Buffer& buffer : execution.program().buffers) {
    if (buffer.origin != Origin::Node) {
      execution.write(buffer.name, initial_data(buffer));
    }
  }
}

/// The median time of each instruction, while all ranks run the program.
std::vector<double> time_program(const Program& program, Device& device, BenchPage& page,
                                 int repeats) {
  Execution execution(program, device);
  fill_leaves(execution);
  execution.run();
  std::vector<std::vector<double>> times(program.instructions.size());
  for (int i = 0; i < repeats; ++i) {
    page.barrier();
    Trace trace;
    execution.run(&trace);
    for (std::size_t k = 0; k < times.size(); ++k) {
      times[k].push_back(trace.spans.at(k).duration.count);
    }
  }
  std::vector<double> medians;
  std::ranges::transform(times, std::back_inserter(medians), median);
  return medians;
}

/// A short sum, started in the background after computing, when the thread that drives such operations sleeps.
class BackgroundProbe {
 public:
  /// The caller's time to start it, and its delay compared with a blocking call.
  struct Times {
    double start = 0;
    double background = 0;
  };

  BackgroundProbe(World& world, BenchPage& page)
      : group_(world.all()), page_(page), call_(allreduce<float>({&mine_, 1}, {&sum_, 1})) {}

  [[nodiscard]] Times measure(int repeats) {
    std::vector<double> starting;
    std::vector<double> waiting;
    std::vector<double> blocking;
    for (int i = 0; i < repeats; ++i) {
      const Clock::time_point begin = arrive();
      Pending pending = group_.start(call_);
      starting.push_back(since(begin));
      pending.wait();
      waiting.push_back(since(begin));
      const Clock::time_point again = arrive();
      group_.run(call_);
      blocking.push_back(since(again));
    }
    return {median(starting), std::max(0.0, median(waiting) - median(blocking))};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  /// All ranks compute for a while, and start together.
  [[nodiscard]] Clock::time_point arrive() {
    constexpr double kComputing = 5e-4;
    page_.barrier();
    const Clock::time_point begin = Clock::now();
    while (since(begin) < kComputing) {
    }
    return Clock::now();
  }

  Group& group_;
  BenchPage& page_;
  float mine_ = 0;
  float sum_ = 0;
  Call call_;
};

class ComputeProber {
 public:
  explicit ComputeProber(const ComputeProbeOptions& options) : options_(options) {
    for (const Program& program : options.programs) {
      programs_.push_back(without_communication(program));
      kernels_ += programs_.back().instructions.size();
    }
  }

  [[nodiscard]] ComputeSetting measure(int ranks, int threads) const {
    BenchPage page(ranks, (kernels_ + 2) * sizeof(double));
    const auto body = [&](World& world) { run_rank(world, threads, page); };
    if (launch(ranks, body) != 0) {
      throw Error(ErrorKind::System, "a rank failed; its error is above");
    }
    const auto* times = reinterpret_cast<const double*>(page.results().data());
    std::vector<predict::KernelSample> samples;
    for (const Program& program : programs_) {
      for (const Instruction& instruction : program.instructions) {
        samples.push_back({predict::kernel_work(signature_of(program, instruction)), {*times++}});
      }
    }
    ComputeSetting setting{
        .ranks = ranks, .threads = threads, .kernels = predict::fit_kernel_costs(samples)};
    if (ranks > 1) {
      setting.kernels.push_back(per_call(predict::kStart, times[0]));
      setting.kernels.push_back(per_call(predict::kBackground, times[1]));
    }
    return setting;
  }

 private:
  static KernelCost per_call(std::string_view kernel, double seconds) {
    return {.kernel = std::string(kernel), .dtype = "f32", .call = {std::max(seconds, 1e-9)}};
  }

  void run_rank(World& world, int threads, BenchPage& page) const {
    try {
      const std::unique_ptr<Device> device = options_.make_device(world.size(), threads);
      auto* times = reinterpret_cast<double*>(page.results().data());
      for (const Program& program : programs_) {
        const std::vector<double> medians = time_program(program, *device, page, options_.repeats);
        if (world.rank() == 0) {
          times = std::ranges::copy(medians, times).out;
        }
      }
      if (world.size() > 1) {
        constexpr int kRepeats = 60;
        const BackgroundProbe::Times background = BackgroundProbe(world, page).measure(kRepeats);
        if (world.rank() == 0) {
          times[0] = background.start;
          times[1] = background.background;
        }
      }
    } catch (...) {
      page.abort();
      throw;
    }
  }

  const ComputeProbeOptions& options_;
  std::vector<Program> programs_;
  std::size_t kernels_ = 0;
};

}  // namespace

ComputeCosts probe_compute(const ComputeProbeOptions& options,
                           const std::function<void(const std::string&)>& progress) {
  const ComputeProber prober(options);
  std::vector<std::pair<int, int>> settings{{1, options.cores}};
  if (options.cores > 1) {
    settings.insert(settings.end(), {{1, 1}, {options.cores, 1}});
  }
  ComputeCosts costs{.source = fmt::format("kernels of {} training steps, timed on this host",
                                           options.programs.size()),
                     .settings = {}};
  for (const auto& [ranks, threads] : settings) {
    progress(fmt::format("kernels of {} rank{} on {} thread{}", ranks, ranks == 1 ? "" : "s",
                         threads, threads == 1 ? "" : "s"));
    costs.settings.push_back(prober.measure(ranks, threads));
  }
  return costs;
}

}  // namespace trireme::measure
