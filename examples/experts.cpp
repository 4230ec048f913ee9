// Trains three models on a table of random facts, for as many steps as the first argument says: a small dense one, a
// Switch model with the same FLOPs per token, and a dense one with as many parameters as the Switch model. Prints the
// FLOPs that each used and the loss it reached.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <trireme/cpu_device.h>
#include <trireme/train.h>

namespace {

constexpr std::int32_t kSymbols = 64;
constexpr std::int64_t kLength = 32;
constexpr std::int64_t kBatch = 32;
constexpr unsigned kNoise = 8;  // one symbol in 8 is random

// Each symbol is a random permutation, which maps the symbol before it to the one after it: 4096 facts that have nothing
// in common. All symbols are equally frequent, alone and after any other one: the last symbol alone says nothing about the
// next.
class Facts : public trireme::Batches {
 public:
  Facts() : next_(kSymbols, std::vector<std::int32_t>(kSymbols)) {
    std::mt19937_64 random(1);
    for (std::vector<std::int32_t>& permutation : next_) {
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random);
    }
  }

  // Sequences are never repeated, so the training loss is also the loss on unseen data.
  void fill(trireme::DataPosition at, const trireme::BatchMemory& to) const override {
    constexpr std::size_t kBytes = kLength * sizeof(std::int32_t);
    for (std::size_t offset = 0; offset < to.inputs.size(); offset += kBytes) {
      const std::vector<std::int32_t> symbols = sequence(at.index++);
      std::memcpy(&to.inputs[offset], symbols.data(), kBytes);
      std::memcpy(&to.targets[offset], symbols.data() + 1, kBytes);
    }
  }

  [[nodiscard]] trireme::DataPosition advance(trireme::DataPosition at,
                                              std::int64_t examples) const override {
    return {.epoch = at.epoch, .index = at.index + examples};
  }

  static double entropy() {  // per symbol; the first two of a sequence are random
    const double any = 1.0 / kNoise / kSymbols;
    const double right = 1 - any * (kSymbols - 1);
    const double known = -right * std::log(right) - (1 - right) * std::log(any);
    return (std::log(kSymbols) + (kLength - 1) * known) / kLength;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> sequence(std::int64_t index) const {
    std::mt19937_64 random(static_cast<std::uint64_t>(index) + 1000);
    const auto any = [&] { return static_cast<std::int32_t>(random() % kSymbols); };
    std::vector<std::int32_t> symbols{any(), any()};
    while (symbols.size() <= kLength) {
      const auto before = static_cast<std::size_t>(symbols[symbols.size() - 2]);
      const auto last = static_cast<std::size_t>(symbols.back());
      symbols.push_back(random() % kNoise == 0 ? any() : next_[last][before]);
    }
    return symbols;
  }

  std::vector<std::vector<std::int32_t>> next_;  // [last][before]
};

trireme::ModelConfig dense(const char* name, std::int64_t hidden) {
  trireme::ModelConfig config = trireme::preset_model("gpt-nano");
  config.name = name;
  config.vocabulary = kSymbols;
  config.context = kLength;
  config.width = 32;
  config.layers = 1;
  config.heads = config.key_heads = 1;
  config.head_width = config.width;
  config.hidden = hidden;
  return config;
}

trireme::ModelConfig with_experts(trireme::ModelConfig config, std::int64_t experts) {
  config.experts = experts;
  config.experts_per_token = 1;
  config.capacity_factor = 2;
  return config;
}

void train(const trireme::ModelConfig& model, std::int64_t steps) {
  trireme::RunOptions options;
  options.model = model;
  options.settings.batch = kBatch;
  options.settings.length = kLength;
  options.settings.steps = steps;
  options.settings.optimizer = "muon";
  options.settings.rate = "0.02";
  options.settings.validation = 0;
  options.open_data = [](const trireme::TrainSettings&, const trireme::AnyModelConfig&) {
    trireme::TrainData data;
    data.name = "random facts";
    data.vocabulary = kSymbols;
    data.training = std::make_unique<Facts>();
    return data;
  };
  options.make_device = trireme::cpu_devices();
  trireme::run_ranks(options, [](trireme::TrainingRun& run) {
    const trireme::RunFacts& facts = run.facts();
    const double flops = facts.model_flops / (kBatch * kLength);
    const trireme::RunSummary summary = run.train();
    std::printf("%-8s %10td %16.0f %12.2f %8.3f\n", facts.model.c_str(), facts.parameters, flops,
                facts.model_flops * static_cast<double>(summary.step) / 1e9, *summary.loss);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  constexpr std::int64_t kHidden = 64;
  constexpr std::int64_t kExperts = 8;
  std::printf("%-8s %10s %16s %12s %8s\n", "model", "parameters", "FLOPs per token", "GFLOPs",
              "loss");
  train(dense("dense", kHidden), steps);
  train(with_experts(dense("switch", kHidden), kExperts), steps);
  train(dense("wide", kHidden * kExperts), steps);
  std::printf("No model can do better than %.3f; guessing gives %.3f.\n", Facts::entropy(),
              std::log(kSymbols));
}
