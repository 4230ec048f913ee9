// How fast tokens are generated at batch 1, next to the limit: reading every weight once per token from memory.
//
//   build/release/bench/generate_bench [--model NAME] [--tokens N] [--threads N] [--json]
//
// The default is GPT-2 small in f32 with random weights. After each token, the same threads sum as many bytes of other
// memory, 4 MiB at a time. Two rates are compared with that limit. End to end, a token takes as long as it takes, drawing
// included; the median of the tokens is compared with the median of the reads. For the kernels, the best time of each
// kernel, and of each 4 MiB, counts, because other load on the machine only makes things slower; the sums of those are
// compared. Weights that a token does not read (the rows of embeddings that are only looked up) do not count.
// tests/train/generate_test.cpp checks that the tokens are correct.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "base/median.h"
#include "train/generate/decoder.h"
#include "trireme/cpu_device.h"
#include "trireme/draw_token.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model = "gpt2-small";
  int tokens = 60;
  int threads = 0;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    options.json = options.json || name == "--json";
    if (name == "--model") {
      options.model = value;
    } else if (name == "--tokens") {
      options.tokens = std::stoi(value);
    } else if (name == "--threads") {
      options.threads = std::stoi(value);
    }
  }
  return options;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

train::ModelSource random_source(const ModelConfig& config) {
  train::ModelSource source;
  source.config = config;
  source.read = [](const ModelParameter& parameter) { return initial_values(parameter, 1); };
  return source;
}

/// Bytes of the weights that each token reads.
double bytes_read(const train::CompiledDecoder& compiled) {
  const bool tied = compiled.options.config.tied;
  double bytes = 0;
  for (const ModelParameter& parameter : compiled.parameters) {
    const bool looked_up = parameter.name.ends_with("wpe.weight") ||
                           (!tied && parameter.name.ends_with("embed_tokens.weight"));
    bytes += looked_up ? 0 : static_cast<double>(size_of(parameter.type).count);
  }
  return bytes;
}

/// As wide as the processor can; compilers do not vectorize a sum of floats by themselves.
__attribute__((target_clones("avx512f", "avx2", "default"))) float sum_of(const float* from,
                                                                          std::size_t count) {
  constexpr std::size_t kSums = 64;
  float sums[kSums] = {};
  for (std::size_t i = 0; i + kSums <= count; i += kSums) {
#pragma omp simd
    for (std::size_t k = 0; k < kSums; ++k) {
      sums[k] += from[i + k];
    }
  }
  float total = 0;
  for (const float sum : sums) {
    total += sum;
  }
  return total;
}

/// The seconds of each part of a buffer, read by all threads.
std::vector<double> read_parts(std::span<const float> buffer, double& sink) {
  constexpr std::size_t kPart = std::size_t{1} << 20U;  // 4 MiB, as a matrix of a small model
  std::vector<double> times;
  for (std::size_t at = 0; at < buffer.size(); at += kPart) {
    const std::span<const float> part = buffer.subspan(at, std::min(kPart, buffer.size() - at));
    const Clock::time_point start = Clock::now();
    double total = 0;
#pragma omp parallel reduction(+ : total)
    {
      const std::size_t each = part.size() / static_cast<std::size_t>(omp_get_num_threads());
      total += sum_of(part.data() + each * static_cast<std::size_t>(omp_get_thread_num()), each);
    }
    sink += total;
    times.push_back(seconds_since(start));
  }
  return times;
}

/// The seconds of each kernel of a token.
std::vector<double> run_kernels(train::Decoder& decoder, std::int32_t token) {
  Trace trace;
  decoder.append(token, &trace);
  std::vector<double> times;
  for (const Trace::Span& span : trace.spans) {
    times.push_back(span.duration.count);
  }
  return times;
}

/// The seconds of a whole token as a user waits for it: no trace, and drawing the next one.
double run_token(train::Decoder& decoder, std::int32_t& token) {
  const Clock::time_point start = Clock::now();
  decoder.append(token);
  token = draw_token(decoder.logits(), {}, 0);
  return seconds_since(start);
}

/// Keeps the best time of each part: other load delays some of them, never all of them every time.
void keep_best(std::vector<double>& best, const std::vector<double>& times) {
  if (best.empty()) {
    best = times;
  }
  for (std::size_t i = 0; i < best.size(); ++i) {
    best[i] = std::min(best[i], times[i]);
  }
}

double sum(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0);
}

void print_times(std::string_view what, double token, double read, double bytes) {
  fmt::print("{}:\n", what);
  fmt::print("  token         {:8.2f} ms  {:6.2f} GB/s  {:.1f} tokens/s\n", token * 1e3,
             bytes / token / 1e9, 1 / token);
  fmt::print("  only reading  {:8.2f} ms  {:6.2f} GB/s\n", read * 1e3, bytes / read / 1e9);
  fmt::print("  share of the limit: {:.0f} %\n", 100 * read / token);
}

int run(const Options& options) {
  constexpr std::int64_t kCapacity = 256;
  CpuOptions cpu;
  cpu.threads = options.threads;
  cpu.row_invariant = true;
  const std::unique_ptr<Device> device = make_cpu_device(cpu);
  const train::ModelSource source = random_source(preset_model(options.model));
  const train::CompiledDecoder compiled =
      train::compile_decoder({.config = source.config,
                              .plan = {},
                              .capacity = std::min(kCapacity, source.config.context)});
  const double bytes = bytes_read(compiled);
  // Memory like the weights': from the device, in huge pages if there are any.
  const std::unique_ptr<DeviceMemory> memory = device->allocate({static_cast<std::int64_t>(bytes)});
  const std::span<float> buffer(reinterpret_cast<float*>(memory->data()),
                                static_cast<std::size_t>(bytes) / sizeof(float));
  std::ranges::fill(buffer, 1.0F);
  train::Decoder decoder(compiled, source, *device, nullptr);
  double sink = 0;
  std::vector<double> kernels;
  std::vector<double> reads;
  std::vector<double> tokens;
  std::vector<double> whole_reads;
  std::int32_t next = 1;
  for (int i = 0; i < std::min<int>(options.tokens, static_cast<int>(kCapacity) / 2); ++i) {
    keep_best(kernels, run_kernels(decoder, i % 7));
    const std::vector<double> parts = read_parts(buffer, sink);
    keep_best(reads, parts);
    whole_reads.push_back(sum(parts));
    tokens.push_back(run_token(decoder, next));
  }
  const double token = sum(kernels);
  const double read = sum(reads);
  const double whole_token = median(tokens);
  const double whole_read = median(whole_reads);
  if (options.json) {
    fmt::print(
        "{{\"model\":\"{}\",\"weight_bytes\":{:.0f},\"token_seconds\":{:.6f},"
        "\"read_seconds\":{:.6f},\"share_of_limit\":{:.3f},\"end_to_end_token_seconds\":{:.6f},"
        "\"end_to_end_read_seconds\":{:.6f},\"end_to_end_share_of_limit\":{:.3f}}}\n",
        options.model, bytes, token, read, read / token, whole_token, whole_read,
        whole_read / whole_token);
  } else {
    fmt::print("{}, f32, batch 1, {}: {:.1f} MB of weights per token\n", options.model,
               device->name(), bytes / 1e6);
    print_times("end to end, medians", whole_token, whole_read, bytes);
    print_times("sums of the best kernels and reads", token, read, bytes);
  }
  return sink > 0 ? 0 : 1;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(trireme::parse(argc, argv));
}
