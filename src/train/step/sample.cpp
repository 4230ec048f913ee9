// Generates text from a model token by token, each with a full forward pass over the last tokens.
#include <algorithm>

#include "train/step/trainer.h"
#include "trireme/draw_token.h"

namespace trireme::train {

std::vector<std::int32_t> Trainer::sample(std::vector<std::int32_t> prompt, std::int64_t count,
                                          double temperature, std::uint64_t seed) {
  ShardedExecution& run = forward();
  const std::int64_t length = options_.batch.length;
  const std::size_t vocabulary = std::get<ModelConfig>(options_.model).vocabulary;
  std::vector<std::int32_t> window(options_.batch.sequences * length, 0);
  std::vector<float> logits(leads() ? window.size() * vocabulary : 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto have = std::min<std::int64_t>(static_cast<std::int64_t>(prompt.size()), length);
    std::copy(prompt.end() - have, prompt.end(), window.begin());
    run.write("tokens", std::as_bytes(std::span(window)));
    run.run();
    run.read("logits", std::as_writable_bytes(std::span(logits)));
    std::int32_t token = 0;
    if (leads()) {
      token = draw_token(std::span(logits).subspan((have - 1) * vocabulary, vocabulary),
                         {.temperature = temperature, .seed = seed}, i);
    }
    share(std::span(&token, 1));
    prompt.push_back(token);
  }
  return prompt;
}

}  // namespace trireme::train
