// Sizes of published models. The source of each row is the paper or the configuration released with the weights.
#include <algorithm>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/estimate.h"
#include "trireme/message.h"

namespace trireme {
namespace {

constexpr std::int64_t kGptVocabulary = 50257;

/// Brown et al. 2020, table 2.1.
Architecture gpt3() {
  return {.model = {.name = "gpt3-175b",
                    .family = Family::Gpt2,
                    .vocabulary = kGptVocabulary,
                    .context = 2048,
                    .width = 12288,
                    .layers = 96,
                    .heads = 96,
                    .key_heads = 96,
                    .head_width = 128,
                    .hidden = 49152}};
}

struct LlamaRow {
  const char* name;
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t hidden;
  std::int64_t vocabulary;
  std::int64_t context;
};

Architecture llama(const LlamaRow& row) {
  return {.model = {.name = row.name,
                    .family = Family::Llama,
                    .vocabulary = row.vocabulary,
                    .context = row.context,
                    .width = row.width,
                    .layers = row.layers,
                    .heads = row.heads,
                    .key_heads = row.key_heads,
                    .head_width = row.width / row.heads,
                    .hidden = row.hidden,
                    .tied = false}};
}

/// Jiang et al. 2024.
Architecture mixtral() {
  Architecture a = llama({"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 32768});
  a.model.experts = 8;
  a.model.experts_per_token = 2;
  return a;
}

/// The configuration published with Llama 4 Maverick: experts in every second block, one of them shared.
Architecture llama4_maverick() {
  Architecture a = llama({"llama4-maverick", 48, 5120, 40, 8, 16384, 202048, 1048576});
  a.model.experts = 128;
  a.model.experts_per_token = 1;
  a.model.mixture_every = 2;
  a.expert_hidden = 8192;
  a.model.shared_experts = 1;
  return a;
}

const std::vector<Architecture>& published() {
  static const std::vector<Architecture> rows{
      gpt3(),
      llama({"llama-65b", 80, 8192, 64, 64, 22016, 32000, 2048}),       // Touvron et al. 2023
      llama({"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192}),       // Llama team 2024, table 3
      llama({"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192}),      // the same
      llama({"llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192}),  // the same
      mixtral(),
      llama4_maverick(),
  };
  return rows;
}

}  // namespace

std::int64_t Architecture::mixture_blocks() const noexcept {
  return is_mixture() ? model.layers / model.mixture_every : 0;
}

std::int64_t Architecture::dense_blocks() const noexcept {
  return model.layers - mixture_blocks();
}

std::int64_t Architecture::hidden_of_expert() const noexcept {
  return expert_hidden == 0 ? model.hidden : expert_hidden;
}

bool Architecture::is_buildable() const noexcept {
  return !is_mixture() || hidden_of_expert() == model.hidden;
}

std::vector<std::string> problems(const Architecture& architecture) {
  const ModelConfig& model = architecture.model;
  std::vector<std::string> found = problems(model);
  if (model.experts_per_token < 1) {
    found.push_back(fmt::format("model {}: {} experts for a token; it must be 1 or more",
                                model.name, model.experts_per_token));
  }
  if (architecture.expert_hidden < 0) {
    found.push_back(fmt::format("model {}: experts of hidden width {}", model.name,
                                architecture.expert_hidden));
  }
  return found;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names = preset_model_names();
  for (const Architecture& row : published()) {
    names.push_back(row.model.name);
  }
  return names;
}

Architecture architecture(std::string_view name) {
  for (const Architecture& row : published()) {
    if (row.model.name == name) {
      return row;
    }
  }
  const std::vector<std::string> known = preset_model_names();
  if (std::ranges::find(known, name) != known.end()) {
    return {.model = preset_model(name)};
  }
  throw Error(ErrorKind::Usage, unknown_name("model", name, architecture_names()));
}

}  // namespace trireme
