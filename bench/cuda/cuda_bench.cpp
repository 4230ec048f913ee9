// Training steps of a model on a CUDA device: tokens/s, MFU, memory, host time, and where the time goes, kernel by kernel.
//
//   build/release/bench/cuda/cuda_bench [--model NAME] [--batch N] [--length N] [--warmup N] [--steps N] [--plain]
//     [--deterministic] [--algorithms FILE] [--table FILE]
//   build/release/bench/cuda/cuda_bench --losses FOLDER [--dtype f32|bf16]    see losses.h
//
// Every step trains on the same tokens; the run fails if the loss does not fall, or if memory is more than 2 % off the
// plan. One step is traced, with a pair of events around every kernel and without a CUDA graph; its kernels are summed up
// by category. --plain leaves out the device's fusions; --deterministic takes kernels that give the same bits in each run.
// --algorithms keeps what was timed, --table adds a row of results. MFU is of the device's dense bf16 peak on paper,
// 989.5 TFLOP/s of an H100 or H200, with attention not halved for the mask; in a second column, halved.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "losses.h"
#include "measured_device.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"
#include "trireme/execution.h"
#include "trireme/flops.h"
#include "trireme/model.h"
#include "trireme/op.h"
#include "trireme/optimize.h"
#include "trireme/program.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr double kPeak = 989.5e12;

struct BenchOptions {
  std::string model = "gpt2-small";
  BatchShape batch{.sequences = 64, .length = 1024};
  int warmup = 10;
  int steps = 50;
  bool plain = false;
  bool deterministic = false;
  std::string algorithms{};
  std::string table{};
  std::string losses{};
  DType dtype = DType::BF16;  ///< of the losses
};

BenchOptions parse(const std::vector<std::string>& words) {
  BenchOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--plain" || words[i] == "--deterministic") {
      (words[i] == "--plain" ? options.plain : options.deterministic) = true;
      continue;
    }
    if (i + 1 == words.size()) {
      throw Error(ErrorKind::Usage, fmt::format("unknown or incomplete option '{}'", words[i]));
    }
    const std::string& name = words[i];
    const std::string& value = words[++i];
    if (name == "--model") {
      options.model = value;
    } else if (name == "--batch") {
      options.batch.sequences = std::stoll(value);
    } else if (name == "--length") {
      options.batch.length = std::stoll(value);
    } else if (name == "--warmup") {
      options.warmup = std::stoi(value);
    } else if (name == "--steps") {
      options.steps = std::stoi(value);
    } else if (name == "--algorithms") {
      options.algorithms = value;
    } else if (name == "--table") {
      options.table = value;
    } else if (name == "--losses") {
      options.losses = value;
    } else if (name == "--dtype") {
      options.dtype = value == "f32" ? DType::F32 : DType::BF16;
    } else {
      throw Error(ErrorKind::Usage, fmt::format("unknown option '{}'", name));
    }
  }
  return options;
}

Graph step_graph(const Model& model) {
  return remove_dead_nodes(make_training_graph(
      model.graph, {.optimizer = AdamW{.beta2 = 0.95, .decay = 0.1}, .clip_limit = 1.0}));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A model on the device, with its data.
class Bench {
 public:
  Bench(const BenchOptions& options, const Model& model, const Graph& graph, Device& device)
      : execution_(make_program(graph), device) {
    for (const ModelParameter& parameter : model.parameters) {
      write(graph, parameter);
    }
    std::mt19937 random(1);
    const std::int64_t count = options.batch.sequences * options.batch.length;
    const auto vocabulary = static_cast<std::uint32_t>(preset_model(options.model).vocabulary);
    for (const char* name : {"tokens", "targets"}) {
      HostBuffer ids(DType::I32, count);
      std::ranges::generate(ids.as<std::int32_t>(),
                            [&] { return static_cast<std::int32_t>(random() % vocabulary); });
      execution_.write(name, ids.raw());
    }
  }

  /// Seconds.
  double step(std::int64_t number, Trace* trace = nullptr) {
    const auto start = std::chrono::steady_clock::now();
    const float rate = 3e-4F;
    execution_.write("step", std::as_bytes(std::span(&number, 1)));
    execution_.write("learning_rate", std::as_bytes(std::span(&rate, 1)));
    execution_.run(trace);
    return seconds_since(start);
  }

  [[nodiscard]] double number(std::string_view output) const { return execution_.number(output); }
  [[nodiscard]] Bytes memory() const { return execution_.memory(); }

 private:
  /// A parameter and its master copy. Numbers like the initial ones, but of a generator that is fast enough for billions.
  void write(const Graph& graph, const ModelParameter& parameter) {
    HostBuffer wide(DType::F32, parameter.type.shape.element_count());
    HostBuffer narrow(DType::BF16, parameter.type.shape.element_count());
    const bool is_scale = parameter.initial.kind == Initial::Kind::One;
    const float width = parameter.initial.kind == Initial::Kind::Normal
                            ? static_cast<float>(std::sqrt(12.0) * parameter.initial.deviation)
                            : 0;
    for (std::size_t i = 0; i < wide.as<float>().size(); ++i) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      const float number = static_cast<float>(state_ >> 40U) * 0x1p-24F - 0.5F;
      wide.as<float>()[i] = is_scale ? 1 : width * number;
      narrow.as<BFloat16>()[i] = to_bf16(wide.as<float>()[i]);
    }
    execution_.write(parameter.name, narrow.raw());
    const std::string master = master_of(parameter.name);
    const bool has_master = std::ranges::any_of(
        graph.values(), [&](const Value& value) { return value.name == master; });
    if (has_master) {
      execution_.write(master, wide.raw());
    }
  }

  std::uint64_t state_ = 1;
  Execution execution_;
};

std::string category_of(const std::string& op) {
  static const std::map<std::string, std::string> known{
      {"classifier", "classifier"},         {"clip_scale", "optimizer, gradient norm"},
      {"reduce_max", "classifier"},         {"reduce_sum", "bias gradients"},
      {"cast", "optimizer, gradient norm"}, {"sum_squares", "optimizer, gradient norm"}};
  const auto found = known.find(op);
  return found != known.end()                           ? found->second
         : op.starts_with("einsum")                     ? "products"
         : op.starts_with("attention")                  ? "attention"
         : op.starts_with("adamw")                      ? "optimizer, gradient norm"
         : op.starts_with("cross_entropy")              ? "classifier"
         : op.find("_norm") != std::string::npos        ? "norms"
         : op.starts_with("embedding")                  ? "embedding"
         : op == "pad" || op == "slice" || op == "copy" ? "copies"
                                                        : "element-wise";
}

struct Share {
  double time = 0;
  double flops = 0;
  double bytes = 0;
  int kernels = 0;
};

double number_of(const Trace::Span& span, std::string_view key) {
  for (const TraceArg& arg : span.args) {
    if (arg.key == key && std::holds_alternative<double>(arg.value)) {
      return std::get<double>(arg.value);
    }
  }
  return 0;
}

void print_shares(const std::string& title, const std::map<std::string, Share>& shares) {
  std::vector<std::pair<std::string, Share>> rows(shares.begin(), shares.end());
  std::ranges::sort(rows, {}, [](const auto& row) { return -row.second.time; });
  fmt::print("\n{:<64} {:>8} {:>9} {:>9} {:>8}\n", title, "kernels", "ms", "TFLOP/s", "TB/s");
  for (const auto& [name, share] : rows) {
    fmt::print("{:<64} {:>8} {:>9.3f} {:>9.0f} {:>8.2f}\n", name, share.kernels, share.time * 1e3,
               share.flops / share.time * 1e-12, share.bytes / share.time * 1e-12);
  }
}

/// Returns the sum of all kernels.
double print_trace(const Trace& trace) {
  std::map<std::string, Share> categories;
  std::map<std::string, Share> ops;
  double all = 0;
  for (const Trace::Span& span : trace.spans) {
    const double flops = number_of(span, "flops");
    const bool is_product = span.name.starts_with("einsum") || span.name.starts_with("attention");
    const std::string op =
        is_product ? fmt::format("{} {}, {:.1f} GFLOP", span.name, span.category, flops * 1e-9)
                   : fmt::format("{} {}, {:.1f} MB", span.name, span.category,
                                 number_of(span, "bytes") * 1e-6);
    for (Share* share : {&categories[category_of(span.name)], &ops[op]}) {
      share->time += span.duration.count;
      share->flops += flops;
      share->bytes += number_of(span, "bytes");
      ++share->kernels;
    }
    all += span.duration.count;
  }
  std::erase_if(ops, [&](const auto& row) { return row.second.time < all * 2e-3; });
  print_shares("traced step by category", categories);
  print_shares("traced step by op and size, from 0.2 % on", ops);
  return all;
}

double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers.empty() ? 0 : numbers[numbers.size() / 2];
}

/// FLOP/s of large products.
struct ProductPeak {
  double best = 0;  ///< of the first ones
  /// The median of the second after two seconds, when the device's power limits its clock.
  double sustained = 0;
};

/// Of products of 8192 x 8192 matrices in bf16, of random numbers, 16 in a recording.
ProductPeak product_peak(Device& device) {
  constexpr std::int64_t kSize = 8192;
  constexpr int kProducts = 16;
  GraphBuilder builder("products");
  const TensorType type{DType::BF16, {kSize, kSize}};
  const ValueId weight = builder.parameter("w", type);
  ValueId x = builder.parameter("x", type);
  for (int k = 0; k < kProducts; ++k) {
    x = builder.add1("einsum", {x, weight}, {{"equation", std::string("ij,jk->ik")}});
  }
  builder.output("y", x);
  Execution execution(make_program(builder.finish()), device);
  std::mt19937 random(1);
  HostBuffer numbers(DType::BF16, kSize * kSize);
  std::ranges::generate(
      numbers.as<BFloat16>(), [&] {  // products keep the deviation of their operand
        return to_bf16((static_cast<float>(random() >> 8U) * 0x1p-24F - 0.5F) * 0.0383F);
      });
  execution.write("w", numbers.raw());
  execution.write("x", numbers.raw());
  ProductPeak peak;
  std::vector<double> late;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; seconds_since(begin) < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    execution.run();
    const double rate = 2.0 * kProducts * kSize * kSize * kSize / seconds_since(start);
    if (round < 6) {
      peak.best = std::max(peak.best, rate);
    } else if (seconds_since(begin) > 2) {
      late.push_back(rate);
    }
  }
  peak.sustained = median_of(late);
  return peak;
}

/// Medians, in seconds.
struct HostTimes {
  double enqueuing = 0;  ///< from the start of a step until it is enqueued
  double between = 0;    ///< from the end of a step on the device until the next one begins there
  double device = 0;     ///< of a step there
};

/// `starts`: when the host started each step.
HostTimes host_times(const std::vector<EnqueuedStep>& steps,
                     const std::vector<std::chrono::steady_clock::time_point>& starts) {
  std::vector<double> enqueuing;
  std::vector<double> between;
  std::vector<double> device;
  for (std::size_t i = 0; i < std::min(steps.size(), starts.size()); ++i) {
    enqueuing.push_back(std::chrono::duration<double>(steps[i].enqueued - starts[i]).count());
    device.push_back(steps[i].end->since(*steps[i].begin).count);
    if (i > 0) {
      between.push_back(steps[i].begin->since(*steps[i - 1].end).count);
    }
  }
  return {median_of(enqueuing), median_of(between), median_of(device)};
}

/// What a run has measured.
struct Results {
  double step = 0;  ///< seconds
  HostTimes host{};
  double first_loss = 0;
  double loss = 0;
  double planned = 0;  ///< bytes
  double used = 0;     ///< bytes
  ProductPeak peak{};
  Flops flops{};
  double tokens = 0;

  [[nodiscard]] double mfu() const { return 100 * flops.products / step / kPeak; }
  [[nodiscard]] double causal_mfu() const { return 100 * flops.causal_products / step / kPeak; }
  [[nodiscard]] bool loss_falls() const { return std::isfinite(loss) && loss < first_loss; }
  [[nodiscard]] bool memory_fits() const { return std::abs(used / planned - 1) <= 0.02; }
};

void print_results(const BenchOptions& options, const Results& r, const Device& device) {
  fmt::print("{} on {}, batch {}, length {}, bf16 with f32 master weights{}\n", options.model,
             device.name(), options.batch.sequences, options.batch.length,
             options.plain           ? ", without fusions"
             : options.deterministic ? ", deterministic"
                                     : "");
  fmt::print("step            {:.2f} ms, median of {}\n", r.step * 1e3, options.steps);
  fmt::print("tokens/s        {:.0f}\n", r.tokens / r.step);
  fmt::print(
      "MFU             {:.2f} % ({:.2f} TFLOP a step); with half of causal attention {:.2f} %\n",
      r.mfu(), r.flops.products * 1e-12, r.causal_mfu());
  fmt::print(
      "product peak    {:.0f} TFLOP/s at first, {:.0f} after two seconds, 8192 x 8192 x 8192; MFU "
      "of these {:.2f} and "
      "{:.2f} %\n",
      r.peak.best * 1e-12, r.peak.sustained * 1e-12, 100 * r.flops.products / r.step / r.peak.best,
      100 * r.flops.products / r.step / r.peak.sustained);
  fmt::print("host            {:.0f} us until a step is enqueued\n", r.host.enqueuing * 1e6);
  fmt::print("device          {:.2f} ms a step, then idle {:.0f} us = {:.2f} %\n",
             r.host.device * 1e3, r.host.between * 1e6, 100 * r.host.between / r.step);
  fmt::print("loss            {:.4f} at step 1, {:.4f} at step {}: {}\n", r.first_loss, r.loss,
             options.warmup + options.steps,
             r.loss_falls() ? "it falls" : "FAILED: it does not fall");
  fmt::print("memory          {:.2f} GiB planned, {:.2f} GiB measured{}\n", r.planned / 0x1p30,
             r.used / 0x1p30, r.memory_fits() ? "" : ": FAILED: more than 2 % apart");
}

/// A row of a Markdown table.
void add_row(const BenchOptions& options, const Results& r) {
  if (options.table.empty()) {
    return;
  }
  std::ofstream table(options.table, std::ios::app);
  fmt::print(
      table,
      "| {}{}, {} x {} | {:.2f} | {:.0f} | {:.2f} | {:.2f} | {:.0f} / {:.0f} | {:.0f} | {:.2f} | "
      "{:.2f} / {:.2f} |\n",
      options.model, options.deterministic ? " (deterministic)" : "", options.batch.sequences,
      options.batch.length, r.step * 1e3, r.tokens / r.step, r.mfu(), r.causal_mfu(),
      r.peak.best * 1e-12, r.peak.sustained * 1e-12, r.host.enqueuing * 1e6,
      100 * r.host.between / r.step, r.planned / 0x1p30, r.used / 0x1p30);
}

/// Steps after those that warm up.
void time_steps(const BenchOptions& options, Bench& bench, MeasuredDevice& device, Results& r) {
  std::vector<double> times;
  std::vector<std::chrono::steady_clock::time_point> starts;
  for (int step = 1; step <= options.warmup + options.steps; ++step) {
    if (step == options.warmup + 1) {
      device.start();
    }
    const auto start = std::chrono::steady_clock::now();
    const double time = bench.step(step);
    if (step == 1) {
      r.first_loss = bench.number("loss");
    }
    if (step > options.warmup) {
      times.push_back(time);
      starts.push_back(start);
    }
  }
  r.step = median_of(times);
  r.loss = bench.number("loss");
  r.host = host_times(device.steps(), starts);
}

int run(const std::vector<std::string>& words) {
  const BenchOptions options = parse(words);
  if (cuda_device_count() == 0) {
    fmt::print("this machine has no CUDA device\n");
    return 1;
  }
  keep_cuda_algorithms(options.algorithms, options.deterministic ? AlgorithmChoice::Reproducible
                                                                 : AlgorithmChoice::Fastest);
  const std::unique_ptr<Device> cuda = make_cuda_device();
  if (!options.losses.empty()) {
    write_losses(options.losses, options.dtype, *cuda);
    return 0;
  }
  MeasuredDevice device(*cuda);
  Results r{.peak = product_peak(*cuda)};
  ModelConfig config = preset_model(options.model);
  config.dtype = DType::BF16;
  const Model model = make_model(config, options.batch);
  const Graph graph = step_graph(model);
  r.flops = count_flops(graph).model();
  r.tokens = static_cast<double>(options.batch.sequences * options.batch.length);
  const double free_before = static_cast<double>(device.free_memory()->count);
  const auto start = std::chrono::steady_clock::now();
  Bench bench(options, model, fuse_for(graph, options.plain ? Fusions{} : device.fusions()),
              device);
  const double preparing = seconds_since(start);
  time_steps(options, bench, device, r);
  r.used = free_before - static_cast<double>(device.free_memory()->count);
  r.planned = static_cast<double>(bench.memory().count);
  print_results(options, r, device);
  fmt::print("preparing       {:.1f} s\n", preparing);
  add_row(options, r);

  Trace trace;
  bench.step(options.warmup + options.steps + 1, &trace);
  const double kernels = print_trace(trace);
  fmt::print(
      "\nall kernels     {:.2f} ms, traced one by one; together {:.2f} ms on the device: updates "
      "and "
      "sums of squares\n                are joined there\n",
      kernels * 1e3, r.host.device * 1e3);
  return r.loss_falls() && r.memory_fits() ? 0 : 1;
}

}  // namespace
}  // namespace trireme

int main(int count, char** words) {
  try {
    return trireme::run({words + 1, words + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_bench: {}\n", error.what());
    return 2;
  }
}
