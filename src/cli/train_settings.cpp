#include "cli/train_settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "trireme/error.h"

namespace trireme::cli {

RecomputeMode parse_recompute(std::string_view text) {
  if (text == "none") {
    return RecomputeMode::None;
  }
  if (text == "selective") {
    return RecomputeMode::Selective;
  }
  if (text == "full") {
    return RecomputeMode::Full;
  }
  throw Error(ErrorKind::Usage,
              fmt::format("'{}' is no way to recompute; use none, selective or full", text));
}

namespace {

double width_of(const ModelConfig& config) {
  return static_cast<double>(config.width);
}
double width_of(const MlpConfig& config) {
  return static_cast<double>(std::ranges::max(config.hidden));
}
double width_of(const ConvNetConfig& config) {
  return static_cast<double>(config.filters);
}

}  // namespace

train::LearningRate TrainSettings::learning_rate(const AnyModelConfig& model_config) const {
  if (!rate.empty()) {
    return train::parse_learning_rate(rate);
  }
  // Small models stand, and want, larger steps.
  const double width =
      std::visit([](const auto& config) { return width_of(config); }, model_config);
  const double peak = std::clamp(0.3 / width, 2e-4, 3e-3);
  return {.shape = train::Decay::Cosine,
          .peak = peak,
          .warmup = std::max<std::int64_t>(1, std::min<std::int64_t>(50, steps / 10)),
          .steps = std::max<std::int64_t>(steps, 1),
          .decay = 0,
          .least = peak / 10};
}

std::string to_text(const TrainSettings& s) {
  const Json json{{"model", s.model},
                  {"weights", s.weights},
                  {"data", s.data},
                  {"tokenizer", s.tokenizer},
                  {"batch", s.batch},
                  {"length", s.length},
                  {"steps", s.steps},
                  {"rate", s.rate},
                  {"clip", s.clip},
                  {"decay", s.decay},
                  {"dropout", s.dropout},
                  {"experts", s.experts},
                  {"validation", s.validation},
                  {"dtype", s.dtype},
                  {"recompute", s.recompute},
                  {"seed", s.seed}};
  return json.dump(2) + "\n";
}

TrainSettings parse_train_settings(std::string_view text, std::string_view what) {
  const Json json = parse_json(text, what);
  const JsonObject object(
      json, what, "",
      {"model", "weights", "data", "tokenizer", "batch", "length", "steps", "rate", "clip", "decay",
       "dropout", "experts", "validation", "dtype", "recompute", "seed"});
  // Field by field: GCC 12 destroys members twice when one in the middle of a braced list throws.
  TrainSettings settings;
  settings.model = object.text("model");
  settings.weights = object.optional_text("weights");
  settings.data = object.text("data");
  settings.tokenizer = object.text("tokenizer");
  settings.batch = object.integer("batch");
  settings.length = object.integer("length");
  settings.steps = object.integer("steps");
  settings.rate = object.text("rate");
  settings.clip = object.number("clip");
  settings.decay = object.number("decay");
  settings.dropout = object.number("dropout");
  settings.experts = object.optional_text("experts");
  settings.validation = object.number("validation");
  settings.dtype = object.text("dtype");
  settings.recompute = object.text("recompute");
  settings.seed = static_cast<std::uint64_t>(object.integer("seed"));
  return settings;
}

}  // namespace trireme::cli
