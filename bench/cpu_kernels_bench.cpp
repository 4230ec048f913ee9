// How fast the CPU's kernels are on the nodes of a real training step: each different one is timed alone, beside
// what this machine reaches in the same moments.
//
//   build/release/bench/cpu_kernels_bench [--json] [--fused] [--rounds N] [--only OP] [--model NAME]
//
// Without --model: GPT-2 small, 4 sequences of 256 tokens, AdamW. Products are given in GFLOP/s beside a product of
// matrices 1024 x 1024 x 1024 in the same type by the library; other nodes in GB/s beside a copy of 64 MiB, each byte
// read or written counted once. Rounds alternate between node, product and copy, and the best of each counts, so
// that a neighbour on the machine falls on all three. That results are right is what tests/backend is for.
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

#include "graph/op.h"
#include "trireme/cpu_device.h"
#include "trireme/model.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme {
namespace {

struct Options {
  bool json = false;
  bool fused = false;
  int rounds = 5;
  std::string only{};
  std::string model = "gpt2-small";
};

/// A node that occurs so many times in a step.
struct Case {
  KernelRequest request{};
  Work work{};
  int count = 0;
};

std::string describe(const KernelRequest& request) {
  std::string text(request.op->name);
  for (const TensorType& type : request.inputs) {
    text += fmt::format(" {}", to_text(type));
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
    if (node.op->is_view || (!only.empty() && node.op->name != only)) {
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

/// A kernel with operands of its own, results in place where the op allows it.
class Bound {
 public:
  Bound(const KernelRequest& request, Device& device) : prepared_(device.prepare(request)) {
    KernelMemory at;
    for (const TensorType& type : request.inputs) {
      at.inputs.push_back(filled(type, device));
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
    kernel_->run();
  }
  /// Seconds.
  [[nodiscard]] double time() {
    const auto start = std::chrono::steady_clock::now();
    kernel_->run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::byte* allocate(Bytes bytes, Device& device) {
    memories_.push_back(device.allocate(bytes));
    return memories_.back()->data();
  }
  /// Reals in [-1, 1], whole numbers below 64, scalars 1.
  std::byte* filled(const TensorType& type, Device& device) {
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
                              [&] { return static_cast<std::int32_t>(generator() % 64); });
        break;
      case DType::I64:
        std::ranges::fill(values.as<std::int64_t>(), 1);
        break;
      default:
        break;
    }
    std::byte* data = allocate(size_of(type), device);
    device.copy_in(data, values.raw());
    return data;
  }

  std::unique_ptr<PreparedKernel> prepared_;
  std::vector<std::unique_ptr<DeviceMemory>> memories_;
  std::unique_ptr<Kernel> kernel_;
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

struct Measured {
  double seconds = 1e30;
  double product = 1e30;  ///< seconds of the peak's
  double copy = 1e30;
};

Measured measure(const Case& c, Bound& product, Bound& copy, const Options& options,
                 Device& device) {
  Bound bound(c.request, device);
  Measured best;
  for (int round = 0; round < options.rounds; ++round) {
    best.product = std::min(best.product, product.time());
    best.copy = std::min(best.copy, copy.time());
    for (int i = 0; i < 3; ++i) {
      best.seconds = std::min(best.seconds, bound.time());
    }
  }
  return best;
}

void print(const Case& c, const Measured& m, const Options& options) {
  const bool product = c.work.products > 0;
  const double done = product ? c.work.products - c.work.causal : c.work.bytes;
  const double speed = done / m.seconds / 1e9;
  const double peak = product ? 2.0 * kPeakSize * kPeakSize * kPeakSize / m.product / 1e9
                              : 2.0 * 4 * kPeakCopy / m.copy / 1e9;
  const std::string what = describe(c.request);
  const char* unit = product ? "GFLOP/s" : "GB/s";
  if (options.json) {
    fmt::print(
        "{{\"what\": \"{}\", \"count\": {}, \"ms\": {:.4f}, \"speed\": {:.2f}, \"unit\": \"{}\", "
        "\"peak\": {:.2f}, \"share\": {:.3f}}}\n",
        what, c.count, 1e3 * m.seconds, speed, unit, peak, speed / peak);
  } else {
    fmt::print("{:>4} {:>9.3f} {:>9.1f} {:>9.1f} {:<7} {:>7.1f} {:>5.0f} %  {}\n", c.count,
               1e3 * m.seconds, 1e3 * m.seconds * c.count, speed, unit, peak, 100 * speed / peak,
               what);
  }
}

Graph step_of(const Options& options) {
  const Model model = make_model(preset_model(options.model), {.sequences = 4, .length = 256});
  Graph graph = make_training_graph(model.graph, {.optimizer = AdamW{}, .clip_limit = 1.0});
  return options.fused ? fuse_elementwise(graph) : graph;
}

int bench(const Options& options) {
  const std::unique_ptr<Device> device = make_cpu_device();
  const std::vector<Case> cases = cases_of(step_of(options), options.only);
  Bound product = product_of(preset_model(options.model).dtype, *device);
  Bound copy = copy_of(*device);
  if (!options.json) {
    fmt::print("{}\n{:>4} {:>9} {:>9} {:>17} {:>7} {:>7}  what\n", device->name(), "n", "ms each",
               "ms all", "speed", "peak", "share");
  }
  double all = 0;
  for (const Case& c : cases) {
    const Measured m = measure(c, product, copy, options, *device);
    all += m.seconds * c.count;
    print(c, m, options);
  }
  if (!options.json) {
    fmt::print("{:>24.1f} ms in all\n", 1e3 * all);
  }
  return 0;
}

/// Nothing else than options; the exit status for what is none.
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
    } else if (word == "--rounds" && !next.empty()) {
      std::from_chars(next.data(), next.data() + next.size(), options.rounds);
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
  return trireme::parse_and_run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
}
