// Generates text from a model token by token, each with a full forward pass over the last tokens.
#include <algorithm>
#include <cmath>

#include "graph/random.h"
#include "train/step/trainer.h"

namespace trireme::train {
namespace {

/// Draws a token from softmax(logits / temperature).
std::int32_t draw(std::span<const float> logits, double temperature, double uniform) {
  const auto largest = std::ranges::max_element(logits);
  if (temperature <= 0) {
    return static_cast<std::int32_t>(largest - logits.begin());
  }
  std::vector<double> weights;
  weights.reserve(logits.size());
  double sum = 0;
  for (const float logit : logits) {
    weights.push_back(std::exp((static_cast<double>(logit) - *largest) / temperature));
    sum += weights.back();
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left <= 0) {
      return static_cast<std::int32_t>(i);
    }
  }
  return static_cast<std::int32_t>(weights.size() - 1);
}

}  // namespace

std::vector<std::int32_t> Trainer::sample(std::vector<std::int32_t> prompt, std::int64_t count,
                                          double temperature, std::uint64_t seed) {
  ShardedExecution& run = forward();
  const std::int64_t length = options_.batch.length;
  const std::int64_t vocabulary = std::get<ModelConfig>(options_.model).vocabulary;
  std::vector<std::int32_t> window(static_cast<std::size_t>(options_.batch.sequences * length), 0);
  std::vector<float> logits(leads() ? window.size() * static_cast<std::size_t>(vocabulary) : 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto have = std::min<std::int64_t>(static_cast<std::int64_t>(prompt.size()), length);
    std::copy(prompt.end() - have, prompt.end(), window.begin());
    run.write("tokens", std::as_bytes(std::span(window)));
    run.run();
    run.read("logits", std::as_writable_bytes(std::span(logits)));
    std::int32_t token = 0;
    if (leads()) {
      const random::Stream stream{static_cast<std::int64_t>(seed), i, random::Use::Mask};
      token = draw(std::span(logits).subspan(static_cast<std::size_t>((have - 1) * vocabulary),
                                             static_cast<std::size_t>(vocabulary)),
                   temperature, random::uniform(random::block_words(stream, 0)[0]));
    }
    share(std::span(&token, 1));
    prompt.push_back(token);
  }
  return prompt;
}

}  // namespace trireme::train
