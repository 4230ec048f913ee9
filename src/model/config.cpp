#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/model.h"

namespace trireme {
namespace {

ModelConfig gpt(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads,
                std::int64_t vocabulary, std::int64_t context) {
  return {.name = std::move(name),
          .family = Family::Gpt2,
          .vocabulary = vocabulary,
          .context = context,
          .width = width,
          .layers = layers,
          .heads = heads,
          .key_heads = heads,
          .head_width = width / heads,
          .hidden = 4 * width};
}

ModelConfig llama_tiny() {
  return {.name = "llama-tiny",
          .family = Family::Llama,
          .vocabulary = 256,
          .context = 256,
          .width = 128,
          .layers = 4,
          .heads = 4,
          .key_heads = 2,
          .head_width = 32,
          .hidden = 352,
          .tied = false};
}

/// A small mixture: four experts, one for each token, as in Switch Transformers.
ModelConfig switch_mini() {
  ModelConfig config = gpt("switch-mini", 4, 128, 4, 256, 256);
  config.experts = 4;
  config.experts_per_token = 1;
  return config;
}

const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> all{
      gpt("gpt-nano", 2, 64, 2, 256, 128),
      gpt("gpt-mini", 4, 128, 4, 256, 256),
      gpt("gpt2-small", 12, 768, 12, 50257, 1024),
      gpt("gpt2-medium", 24, 1024, 16, 50257, 1024),
      gpt("gpt2-large", 36, 1280, 20, 50257, 1024),
      gpt("gpt2-xl", 48, 1600, 25, 50257, 1024),
      llama_tiny(),
      switch_mini(),
  };
  return all;
}

void require(bool holds, const std::string& what) {
  if (!holds) {
    throw Error(ErrorKind::Usage, what);
  }
}

}  // namespace

void ModelConfig::verify() const {
  const std::array<std::pair<const char*, std::int64_t>, 8> sizes{{{"vocabulary", vocabulary},
                                                                   {"context", context},
                                                                   {"width", width},
                                                                   {"layers", layers},
                                                                   {"heads", heads},
                                                                   {"key heads", key_heads},
                                                                   {"head width", head_width},
                                                                   {"hidden", hidden}}};
  for (const auto& [what, size] : sizes) {
    require(size >= 1, fmt::format("model {}: {} is {}; it must be 1 or more", name, what, size));
  }
  require(heads % key_heads == 0, fmt::format("model {}: {} heads cannot share {} key heads evenly",
                                              name, heads, key_heads));
  require(
      family != Family::Llama || head_width % 2 == 0,
      fmt::format("model {}: rotary positions need an even head width, not {}", name, head_width));
  require(
      experts >= 1 && (experts == 1 || experts_per_token <= experts),
      fmt::format("model {}: {} experts for each token of {}", name, experts_per_token, experts));
  require(dropout >= 0 && dropout < 1, fmt::format("model {}: dropout is {}", name, dropout));
}

ModelConfig preset_model(std::string_view name) {
  for (const ModelConfig& config : presets()) {
    if (config.name == name) {
      return config;
    }
  }
  throw Error(ErrorKind::Usage, fmt::format("'{}' is no model; there are {}", name,
                                            list_words(preset_model_names(), "and")));
}

std::vector<std::string> preset_model_names() {
  std::vector<std::string> names;
  for (const ModelConfig& config : presets()) {
    names.push_back(config.name);
  }
  return names;
}

}  // namespace trireme
