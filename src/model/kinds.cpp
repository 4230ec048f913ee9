#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/model_kinds.h"

namespace trireme {
namespace {

const std::vector<AnyModelConfig>& other_presets() {
  static const std::vector<AnyModelConfig> all{
      MlpConfig{}, MlpConfig{.name = "mlp-deep", .hidden = {64, 64, 64}}, ConvNetConfig{}};
  return all;
}

Model build(const ModelConfig& config, const BatchShape& batch) {
  return make_model(config, batch);
}

template <class Config>
Model build(const Config& config, const BatchShape& batch) {
  if (batch.sequences < 1) {
    throw Error(ErrorKind::Usage,
                fmt::format("model {}: a batch of {} examples", config.name, batch.sequences));
  }
  return make_model(config, batch.sequences);
}

}  // namespace

const std::string& name_of(const AnyModelConfig& config) {
  return std::visit([](const auto& c) -> const std::string& { return c.name; }, config);
}

DType dtype_of(const AnyModelConfig& config) {
  return std::visit([](const auto& c) { return c.dtype; }, config);
}

void set_dtype(AnyModelConfig& config, DType dtype) {
  std::visit([&](auto& c) { c.dtype = dtype; }, config);
}

std::vector<std::string> preset_any_model_names() {
  std::vector<std::string> names = preset_model_names();
  std::ranges::transform(other_presets(), std::back_inserter(names), name_of);
  return names;
}

AnyModelConfig preset_any_model(std::string_view name) {
  const std::vector<std::string> of_languages = preset_model_names();
  if (std::ranges::find(of_languages, name) != of_languages.end()) {
    return preset_model(name);
  }
  const auto found = std::ranges::find(other_presets(), name, name_of);
  if (found == other_presets().end()) {
    throw Error(ErrorKind::Usage, unknown_name("model", name, preset_any_model_names()));
  }
  return *found;
}

Model make_model(const AnyModelConfig& config, const BatchShape& batch) {
  return std::visit([&](const auto& c) { return build(c, batch); }, config);
}

AnyModelConfig for_inference(AnyModelConfig config) {
  if (auto* language = std::get_if<ModelConfig>(&config)) {
    language->dropout = 0;
    language->noisy_router = false;
    language->balance_groups = 1;
  }
  return config;
}

}  // namespace trireme
