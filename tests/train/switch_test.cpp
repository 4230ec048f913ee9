// What a mixture of experts is for: more parameters, and a lower loss, for the same FLOPs per token.
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/data/batches.h"
#include "train/data/random.h"
#include "train/run_all.h"
#include "trireme/cpu_device.h"

namespace trireme {
namespace {

constexpr std::int32_t kFactSymbols = 64;
constexpr std::int64_t kFactLength = 32;

/// A random permutation of the symbols for each of them.
std::vector<std::vector<std::int32_t>> random_permutations() {
  std::vector<std::vector<std::int32_t>> all(kFactSymbols, std::vector<std::int32_t>(kFactSymbols));
  std::uint64_t drawn = 0;
  for (std::vector<std::int32_t>& permutation : all) {
    std::iota(permutation.begin(), permutation.end(), 0);
    for (std::size_t i = permutation.size(); i > 1; --i) {
      std::swap(permutation[i - 1], permutation[train::random_bits(1, drawn++) % i]);
    }
  }
  return all;
}

/// Each symbol maps the one before it to the one after it; one in eight is random instead. All symbols are equally
/// frequent, alone and after any other one, so the last symbol alone says nothing about the next.
train::Tokens random_facts(std::size_t count) {
  const std::vector<std::vector<std::int32_t>> next = random_permutations();
  std::vector<std::int32_t> symbols{0, 1};
  while (symbols.size() < count) {
    const auto before = static_cast<std::size_t>(symbols[symbols.size() - 2]);
    const auto last = static_cast<std::size_t>(symbols.back());
    const std::uint64_t random = train::random_bits(2, symbols.size());
    symbols.push_back(random % 8 == 0 ? static_cast<std::int32_t>(random / 8 % kFactSymbols)
                                      : next[last][before]);
  }
  return {std::move(symbols), kFactSymbols, "random facts"};
}

ModelConfig small_model(std::int64_t experts) {
  ModelConfig config = preset_model("gpt-nano");
  config.vocabulary = kFactSymbols;
  config.context = kFactLength;
  config.width = 32;
  config.layers = 1;
  config.heads = 1;
  config.key_heads = 1;
  config.head_width = 32;
  config.hidden = 64;
  config.experts = experts;
  config.experts_per_token = 1;
  config.capacity_factor = 2;
  return config;
}

struct Learned {
  double flops = 0;  ///< of a step
  double loss = 0;   ///< mean of the last steps
};

Learned learn_facts(std::int64_t experts) {
  const TemporaryFolder folder;
  RunOptions options;
  options.model = small_model(experts);
  options.settings.length = kFactLength;
  options.settings.batch = 32;
  options.settings.steps = 800;
  options.settings.optimizer = "muon";
  options.settings.rate = "0.02";
  options.settings.validation = 0;
  options.run_folder = folder / "run";
  options.make_device = cpu_devices(1);
  options.open_data = [](const TrainSettings&, const AnyModelConfig&) {
    TrainData data;
    data.vocabulary = kFactSymbols;
    data.training =
        train::make_batches(train::TokenSource(random_facts(1'000'000), {.length = kFactLength}));
    return data;
  };
  Learned learned;
  run_ranks(options, [&](TrainingRun& run) {
    learned.flops = run.facts().model_flops;
    learned.loss = run.train().loss.value();
  });
  return learned;
}

TEST(SwitchModel, StoresMoreFactsThanDenseModelForSameFlops) {
  const Learned dense = learn_facts(1);
  const Learned sparse = learn_facts(8);
  EXPECT_NEAR(sparse.flops / dense.flops, 1, 0.05);
  EXPECT_LT(sparse.loss, dense.loss - 0.5);
}

}  // namespace
}  // namespace trireme
