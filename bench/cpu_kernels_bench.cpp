// The speed of the CPU kernels on the nodes of a real training step: each distinct node is timed alone, next to what
// this machine reaches at the same time.
//
//   build/release/bench/cpu_kernels_bench [--json] [--fused] [--rounds N] [--threads N] [--only OP,OP]
//                                        [--model NAME]
//
// Without --model: GPT-2 small, 4 sequences of 256 tokens, AdamW. Products are in GFLOP/s (without what a causal mask
// makes unnecessary) next to the library's 1024 x 1024 x 1024 matrix product of the same type; other nodes in GB/s next
// to a copy of 64 MiB, each byte read or written counted once (small operands stay in cache and exceed it). Rounds
// alternate between node, product and copy; the best of each counts, for product and copy the best of the whole run,
// because other load on the machine only makes things slower. tests/backend checks that results are correct.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "trireme/cpu_device.h"
#include "trireme/model.h"
#include "trireme/op.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme {
namespace {

struct Options {
  bool json = false;
  bool fused = false;
  int rounds = 5;
  int threads = 0;  ///< 0: all cores
  std::string only{};
  std::string model = "gpt2-small";
};

/// A node and how often it occurs in a step.
struct Case {
  KernelRequest request{};
  Work work{};
  int count = 0;
};

constexpr std::size_t kMaxShown = 7;

std::string describe(const KernelRequest& request) {
  std::string text(request.op->name);
  for (std::size_t k = 0; k < std::min(request.inputs.size(), kMaxShown); ++k) {
    text += fmt::format(" {}", to_text(request.inputs[k]));
  }
  if (request.inputs.size() > kMaxShown) {
    text += fmt::format(" and {} more", request.inputs.size() - kMaxShown);
  }
  for (const char* name : {"equation", "program"}) {
    const auto found = request.attributes.find(name);
    if (found != request.attributes.end()) {
      text += fmt::format(" {}", std::get<std::string>(found->second));
    }
  }
  return text;
}

std::vector<Case> cases_of(const Graph& graph, const std::string& only) {
  std::map<std::string, Case> by_text;
  for (const Node& node : graph.nodes()) {
    const bool wanted =
        only.empty() ||
        ("," + only + ",").find(fmt::format(",{},", node.op->name)) != std::string::npos;
    if (node.op->is_view || !wanted) {
      continue;
    }
    KernelRequest request{.op = node.op, .attributes = node.attributes};
    for (const ValueId id : node.inputs) {
      request.inputs.push_back(graph.value(id).type);
    }
    for (const ValueId id : node.outputs) {
      request.outputs.push_back(graph.value(id).type);
    }
    Case& found = by_text[describe(request)];
    found.work = work_of(graph, node);
    found.request = std::move(request);
    ++found.count;
  }
  std::vector<Case> cases;
  cases.reserve(by_text.size());
  for (auto& [text, found] : by_text) {
    cases.push_back(std::move(found));
  }
  return cases;
}

/// The operand of this name; nothing if the op has none.
const TensorType* operand(const KernelRequest& request, std::string_view name) {
  const auto among = [&](const std::vector<std::string_view>& names,
                         const std::vector<TensorType>& types) {
    const auto at = std::ranges::find(names, name);
    return at == names.end() ? nullptr : &types[at - names.begin()];
  };
  const TensorType* input = among(request.op->inputs, request.inputs);
  return input != nullptr ? input : among(request.op->outputs, request.outputs);
}

/// The limit for integers: 64, or as many as the op chooses among.
std::uint32_t limit_of(const KernelRequest& request) {
  for (const char* name : {"experts", "size"}) {
    const auto found = request.attributes.find(name);
    if (found != request.attributes.end()) {
      return static_cast<std::uint32_t>(std::get<std::int64_t>(found->second));
    }
  }
  return 64;
}

/// Slots as a balanced router assigns them: each once, token after token to another expert, -1 once all are full.
void fill_slots(std::span<std::int32_t> slots, const Shape& shape, const Shape& y) {
  const std::int64_t experts = y.dim(0);
  const std::int64_t capacity = y.dim(y.rank() - 2);
  const std::int64_t group = shape.dim(shape.rank() - 2) * shape.dim(shape.rank() - 1);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t choice = static_cast<std::int64_t>(i) % group;
    const std::int64_t position = choice / experts;
    slots[i] = position < capacity
                   ? static_cast<std::int32_t>(choice % experts * capacity + position)
                   : -1;
  }
}

/// A kernel with its own operands, results in place if the op allows it.
class Bound {
 public:
  Bound(const KernelRequest& request, Device& device)
      : prepared_(device.prepare(request)), stream_(device.make_stream()) {
    KernelMemory at;
    for (const TensorType& type : request.inputs) {
      const bool slots = &type == operand(request, "slots");
      at.inputs.push_back(
          filled(type, slots ? operand(request, "y") : nullptr, limit_of(request), device));
    }
    for (std::size_t k = 0; k < request.outputs.size(); ++k) {
      const auto place = std::ranges::find(request.op->in_place, k, &Op::InPlace::output);
      const bool over =
          place != request.op->in_place.end() && request.inputs[place->input] == request.outputs[k];
      at.outputs.push_back(over ? memories_[place->input]->data()
                                : allocate(size_of(request.outputs[k]), device));
    }
    at.workspace = allocate(prepared_->workspace(), device);
    kernel_ = prepared_->bind(at);
    run();
  }
  /// Seconds.
  [[nodiscard]] double time() {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  void run() {
    kernel_->enqueue(*stream_);
    stream_->synchronize();
  }
  std::byte* allocate(Bytes bytes, Device& device) {
    memories_.push_back(device.allocate(bytes));
    return memories_.back()->data();
  }
  /// Reals in [-1, 1], integers below the limit, or slots of y if there is one, scalars 1.
  std::byte* filled(const TensorType& type, const TensorType* y, std::uint32_t limit,
                    Device& device) {
    HostBuffer values(type.dtype, type.shape.element_count());
    std::minstd_rand generator(1);
    const auto real = [&] { return static_cast<float>(generator() % 2001) / 1000 - 1; };
    const bool scalar = type.shape.rank() == 0;
    switch (type.dtype) {
      case DType::F32:
        std::ranges::generate(values.as<float>(), [&] { return scalar ? 1 : real(); });
        break;
      case DType::BF16:
        std::ranges::generate(values.as<BFloat16>(), [&] { return to_bf16(real()); });
        break;
      case DType::I32:
        std::ranges::generate(values.as<std::int32_t>(),
                              [&] { return static_cast<std::int32_t>(generator() % limit); });
        if (y != nullptr) {
          fill_slots(values.as<std::int32_t>(), type.shape, y->shape);
        }
        break;
      case DType::I64:
        std::ranges::fill(values.as<std::int64_t>(), 1);
        break;
      default:
        break;
    }
    std::byte* data = allocate(size_of(type), device);
    stream_->copy_in(data, values.raw());
    stream_->synchronize();
    return data;
  }

  std::unique_ptr<PreparedKernel> prepared_;
  std::vector<std::unique_ptr<DeviceMemory>> memories_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Stream> stream_;
};

constexpr std::int64_t kPeakSize = 1024;
constexpr std::int64_t kPeakCopy = 16 << 20;  // elements of f32

Bound product_of(DType dtype, Device& device) {
  const TensorType square{dtype, {kPeakSize, kPeakSize}};
  return Bound({.op = &op_named("einsum"),
                .attributes = {{"equation", std::string("ik,kj->ij")}},
                .inputs = {square, square},
                .outputs = {square}},
               device);
}

Bound copy_of(Device& device) {
  const TensorType row{DType::F32, {kPeakCopy}};
  return Bound({.op = &op_named("copy"), .attributes = {}, .inputs = {row}, .outputs = {row}},
               device);
}

/// The machine's own speed: the best in this run.
class Peaks {
 public:
  Peaks(DType dtype, Device& device)
      : product_(product_of(dtype, device)), copy_(copy_of(device)) {}
  void measure() {
    product_seconds_ = std::min(product_seconds_, product_.time());
    copy_seconds_ = std::min(copy_seconds_, copy_.time());
  }
  /// FLOP/s and bytes/s.
  [[nodiscard]] double product() const {
    return 2.0 * kPeakSize * kPeakSize * kPeakSize / product_seconds_;
  }
  [[nodiscard]] double copy() const { return 2.0 * 4 * kPeakCopy / copy_seconds_; }

 private:
  Bound product_;
  Bound copy_;
  double product_seconds_ = 1e30;
  double copy_seconds_ = 1e30;
};

/// Seconds.
double measure(const Case& c, Peaks& peaks, const Options& options, Device& device) {
  constexpr double kEnough = 0.02;  // for the runs of one round
  Bound bound(c.request, device);
  double best = 1e30;
  for (int round = 0; round < options.rounds; ++round) {
    peaks.measure();
    double spent = 0;
    for (int i = 0; i < 20 && spent < kEnough; ++i) {
      const double seconds = bound.time();
      spent += seconds;
      best = std::min(best, seconds);
    }
  }
  return best;
}

void print(const Case& c, double seconds, const Peaks& peaks, const Options& options) {
  const bool product = c.work.products > 0;
  const double speed = (product ? c.work.products * (1 - c.work.causal) : c.work.bytes) / seconds;
  const double share = speed / (product ? peaks.product() : peaks.copy());
  const std::string what = describe(c.request);
  const char* unit = product ? "GFLOP/s" : "GB/s";
  if (options.json) {
    fmt::print(
        "{{\"what\": \"{}\", \"count\": {}, \"ms\": {:.4f}, \"speed\": {:.2f}, \"unit\": \"{}\", "
        "\"share_of_peak\": {:.3f}}}\n",
        what, c.count, 1e3 * seconds, speed / 1e9, unit, share);
  } else {
    fmt::print("{:>4} {:>9.3f} {:>9.1f} {:>9.1f} {:<7} {:>5.0f} %  {}\n", c.count, 1e3 * seconds,
               1e3 * seconds * c.count, speed / 1e9, unit, 100 * share, what);
  }
}

Graph step_of(const Options& options) {
  const Model model = make_model(preset_model(options.model), {.sequences = 4, .length = 256});
  Graph graph = make_training_graph(model.graph, {.optimizer = AdamW{}, .clip_limit = 1.0});
  return options.fused ? fuse_elementwise(graph) : graph;
}

int bench(const Options& options) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = options.threads});
  const std::vector<Case> cases = cases_of(step_of(options), options.only);
  Peaks peaks(preset_model(options.model).dtype, *device);
  std::vector<double> seconds;
  seconds.reserve(cases.size());
  for (const Case& c : cases) {
    seconds.push_back(measure(c, peaks, options, *device));
  }
  if (!options.json) {
    fmt::print(
        "{}; product {:.1f} GFLOP/s, copy {:.1f} GB/s\n{:>4} {:>9} {:>9} {:>17} {:>7}  what\n",
        device->name(), peaks.product() / 1e9, peaks.copy() / 1e9, "n", "ms each", "ms all",
        "speed", "of peak");
  }
  double all = 0;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    all += seconds[k] * cases[k].count;
    print(cases[k], seconds[k], peaks, options);
  }
  if (!options.json) {
    fmt::print("{:>24.1f} ms in all\n", 1e3 * all);
  }
  return 0;
}

/// Parses options only; returns the exit status for invalid ones.
int parse_and_run(std::span<char* const> arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    const std::string_view next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (word == "--json") {
      options.json = true;
    } else if (word == "--fused") {
      options.fused = true;
    } else if (word == "--only" && !next.empty()) {
      options.only = arguments[++i];
    } else if (word == "--model" && !next.empty()) {
      options.model = arguments[++i];
    } else if ((word == "--rounds" || word == "--threads") && !next.empty()) {
      std::from_chars(next.data(), next.data() + next.size(),
                      word == "--rounds" ? options.rounds : options.threads);
      ++i;
    } else {
      fmt::print(stderr, "cpu_kernels_bench: what is '{}'?\n", word);
      return 2;
    }
  }
  return bench(options);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::parse_and_run(std::span(argv, argc).subspan(1));
}
