#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/model.h"

namespace trireme {
namespace {

constexpr auto kFamilies = enum_names<Family>("gpt2", "llama");
constexpr auto kGateOrders = enum_names<GateOrder>("softmax-first", "top-k-first");

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

/// The shape of Llama 3.2 1B.
ModelConfig llama_1b() {
  return {.name = "llama-1b",
          .family = Family::Llama,
          .vocabulary = 128256,
          .context = 8192,
          .width = 2048,
          .layers = 16,
          .heads = 32,
          .key_heads = 8,
          .head_width = 64,
          .hidden = 8192,
          .rope_base = 500000.0};
}

/// A small mixture: four experts, one per token, as in Switch Transformers.
ModelConfig switch_mini() {
  ModelConfig config = gpt("switch-mini", 4, 128, 4, 256, 256);
  config.experts = 4;
  config.experts_per_token = 1;
  return config;
}

/// Two of eight experts per token, and a shared one; noise in training.
ModelConfig experts_mini() {
  ModelConfig config = gpt("experts-mini", 4, 128, 4, 256, 256);
  config.experts = 8;
  config.experts_per_token = 2;
  config.hidden = 128;
  config.shared_experts = 1;
  config.noisy_router = true;
  return config;
}

/// Every second block processes an eighth of the tokens (Raposo et al., Mixture-of-Depths, 2024).
ModelConfig depths_mini() {
  ModelConfig config = gpt("depths-mini", 4, 128, 4, 256, 256);
  config.depth_capacity = 0.125;
  return config;
}

const std::vector<ModelConfig>& transformer_presets() {
  static const std::vector<ModelConfig> all{
      gpt("gpt-nano", 2, 64, 2, 256, 128),
      gpt("gpt-mini", 4, 128, 4, 256, 256),
      gpt("gpt2-small", 12, 768, 12, 50257, 1024),
      gpt("gpt2-medium", 24, 1024, 16, 50257, 1024),
      gpt("gpt2-large", 36, 1280, 20, 50257, 1024),
      gpt("gpt2-xl", 48, 1600, 25, 50257, 1024),
      llama_tiny(),
      llama_1b(),
      switch_mini(),
      experts_mini(),
      depths_mini(),
  };
  return all;
}

void require(std::vector<std::string>& found, bool holds, const std::string& otherwise) {
  if (!holds) {
    found.push_back(otherwise);
  }
}

void check_mixtures(const ModelConfig& c, std::vector<std::string>& found) {
  require(found, c.experts >= 1 && (c.experts == 1 || c.experts_per_token <= c.experts),
          fmt::format("model {}: each token goes to {} experts, but there are {}", c.name,
                      c.experts_per_token, c.experts));
  require(found, c.mixture_every >= 1 && c.mixture_every <= c.layers,
          fmt::format("model {}: experts in every {}th of {} layers", c.name, c.mixture_every,
                      c.layers));
  require(found, c.experts > 1 || c.shared_experts == 0,
          fmt::format("model {}: shared experts need more than one expert", c.name));
  require(found, c.experts > 1 || !c.noisy_router,
          fmt::format("model {}: a noisy router needs more than one expert", c.name));
  require(found, c.shared_experts >= 0 && c.capacity_factor >= 0,
          fmt::format("model {}: {} shared experts and a capacity factor of {}", c.name,
                      c.shared_experts, c.capacity_factor));
  require(found, c.depth_capacity >= 0 && c.depth_capacity <= 1 && c.depth_every >= 1,
          fmt::format("model {}: each {}th block takes a share of {} of the tokens", c.name,
                      c.depth_every, c.depth_capacity));
  require(found, c.depth_capacity == 0 || c.family == Family::Gpt2,
          fmt::format("model {}: rotary positions count tokens without gaps, so no router can pick "
                      "some of them; use family gpt2",
                      c.name));
}

}  // namespace

bool ModelConfig::has_experts(std::int64_t layer) const noexcept {
  return experts > 1 && layer % mixture_every == mixture_every - 1;
}

bool ModelConfig::picks_tokens(std::int64_t layer) const noexcept {
  return depth_capacity > 0 && layer % depth_every == depth_every - 1;
}

std::int64_t ModelConfig::picked_tokens(std::int64_t length) const {
  const auto share =
      static_cast<std::int64_t>(std::ceil(depth_capacity * static_cast<double>(length)));
  return std::clamp<std::int64_t>(share, 1, length);
}

bool ModelConfig::softmax_first() const noexcept {
  return gate_order ? *gate_order == GateOrder::SoftmaxFirst : experts_per_token == 1;
}

std::vector<std::string> problems(const ModelConfig& c) {
  const std::array<std::pair<const char*, std::int64_t>, 8> sizes{{{"vocabulary", c.vocabulary},
                                                                   {"context", c.context},
                                                                   {"width", c.width},
                                                                   {"layers", c.layers},
                                                                   {"heads", c.heads},
                                                                   {"key heads", c.key_heads},
                                                                   {"head width", c.head_width},
                                                                   {"hidden", c.hidden}}};
  std::vector<std::string> found;
  for (const auto& [what, size] : sizes) {
    require(found, size >= 1,
            fmt::format("model {}: {} is {}; it must be 1 or more", c.name, what, size));
  }
  if (!found.empty()) {
    return found;  // what follows divides by them
  }
  require(found, c.heads % c.key_heads == 0,
          fmt::format("model {}: {} heads cannot share {} key heads evenly", c.name, c.heads,
                      c.key_heads));
  require(found, c.family != Family::Llama || c.head_width % 2 == 0,
          fmt::format("model {}: rotary positions need an even head width, not {}", c.name,
                      c.head_width));
  check_mixtures(c, found);
  require(found, c.dropout >= 0 && c.dropout < 1,
          fmt::format("model {}: dropout is {}", c.name, c.dropout));
  return found;
}

ModelConfig preset_model(std::string_view name) {
  for (const ModelConfig& config : transformer_presets()) {
    if (config.name == name) {
      return config;
    }
  }
  throw Error(ErrorKind::Usage, unknown_name("model", name, preset_model_names()));
}

std::vector<std::string> preset_model_names() {
  std::vector<std::string> names;
  for (const ModelConfig& config : transformer_presets()) {
    names.push_back(config.name);
  }
  return names;
}

std::string_view to_text(Family family) {
  return kFamilies[family];
}

Family parse_family(std::string_view text) {
  return kFamilies.parse("model family", text);
}

std::string_view to_text(GateOrder order) {
  return kGateOrders[order];
}

GateOrder parse_gate_order(std::string_view text) {
  return kGateOrders.parse("gate", text);
}

}  // namespace trireme
