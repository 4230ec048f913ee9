#include "cli/train_settings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "cli/parsed.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

/// What may differ from one part of a run to the next; the rest is what its checkpoints and its place in the
/// data are made of.
constexpr std::array<std::string_view, 7> kMayChange{"batch", "clip",      "decay", "dropout",
                                                     "rate",  "recompute", "steps"};

/// Beyond these sizes could overflow; nobody gets there.
constexpr std::int64_t kMostSteps = 1'000'000'000'000;
constexpr std::uint64_t kMostSeed = 1'000'000'000'000'000;
constexpr std::int64_t kMostLength = 1 << 20U;
constexpr std::int64_t kMostTokens = 1 << 28U;

void require_between(std::string_view option, std::int64_t value, std::int64_t least,
                     std::int64_t most) {
  if (value < least || value > most) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} is {}; it must be {} to {}", option, value, least, most));
  }
}

/// In [0, 1).
void require_share(std::string_view option, double value) {
  if (!(value >= 0 && value < 1)) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} is {}; it must be 0 or more and below 1", option, value));
  }
}

void verify_loss_scale(double scale, DType type) {
  constexpr double kLargest = 1e30;  // with room below what f32 holds
  if (!(scale >= 1 && scale <= kLargest)) {
    throw Error(ErrorKind::Usage,
                fmt::format("--loss-scale is {}; it must be 1 to {}", scale, kLargest));
  }
  if (type != DType::F16 && scale != LossScaling{}.first) {
    throw Error(ErrorKind::Usage,
                "--loss-scale is for --dtype f16, whose gradients need it; leave it out");
  }
}

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

void TrainSettings::verify() const {
  require_between("--steps", steps, 0, kMostSteps);
  if (seed > kMostSeed) {
    throw Error(ErrorKind::Usage, fmt::format("--seed is {}; it must be 0 to {}", seed, kMostSeed));
  }
  require_between("--batch", batch, 1, kMostTokens);
  require_between("--length", length, 1, kMostLength);
  if (batch * length > kMostTokens) {
    throw Error(ErrorKind::Usage,
                fmt::format("--batch {} times --length {} are {} tokens in a step; at most {}",
                            batch, length, batch * length, kMostTokens));
  }
  if (!(clip >= 0 && std::isfinite(clip))) {
    throw Error(ErrorKind::Usage,
                fmt::format("--clip is {}; it must be above 0, or 0 to never clip", clip));
  }
  if (!(decay >= 0 && std::isfinite(decay))) {
    throw Error(ErrorKind::Usage, fmt::format("--decay is {}; it must be 0 or more", decay));
  }
  require_share("--dropout", dropout);
  require_share("--validation", validation);
  const DType type =
      parsed("--dtype", dtype, [](std::string_view text) { return parse_dtype(text); });
  if (!is_float(type)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("--dtype: '{}' cannot be trained in; use f32, bf16, f16 or f64", dtype));
  }
  if (master != "f32" && master != "none") {
    throw Error(ErrorKind::Usage,
                fmt::format("--master: '{}' is no master copy; use f32 or none", master));
  }
  verify_loss_scale(loss_scale, type);
  (void)parsed("--recompute", recompute, parse_recompute);
  if (!rate.empty()) {
    (void)parsed("--rate", rate, train::parse_learning_rate);
  }
  if (!tokenizer.empty() && data.empty()) {
    throw Error(ErrorKind::Usage, "--tokenizer is for the text of --data; give that too");
  }
}

train::LearningRate TrainSettings::learning_rate(const AnyModelConfig& model_config) const {
  return rate.empty() ? default_learning_rate(model_config) : train::parse_learning_rate(rate);
}

train::LearningRate TrainSettings::default_learning_rate(const AnyModelConfig& model_config) const {
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
  const Json json{{"model", s.model},           {"weights", s.weights},     {"data", s.data},
                  {"tokenizer", s.tokenizer},   {"batch", s.batch},         {"length", s.length},
                  {"steps", s.steps},           {"rate", s.rate},           {"clip", s.clip},
                  {"decay", s.decay},           {"dropout", s.dropout},     {"experts", s.experts},
                  {"validation", s.validation}, {"dtype", s.dtype},         {"master", s.master},
                  {"loss-scale", s.loss_scale}, {"recompute", s.recompute}, {"seed", s.seed}};
  return json.dump(2) + "\n";
}

TrainSettings parse_train_settings(std::string_view text, std::string_view what) {
  const Json json = parse_json(text, what);
  const JsonObject object(
      json, what, "",
      {"model", "weights", "data", "tokenizer", "batch", "length", "steps", "rate", "clip", "decay",
       "dropout", "experts", "validation", "dtype", "master", "loss-scale", "recompute", "seed"});
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
  // A run that was begun before there were master copies has none.
  settings.master = object.find("master") != nullptr ? object.text("master") : "none";
  settings.loss_scale = object.optional_number("loss-scale").value_or(settings.loss_scale);
  settings.recompute = object.text("recompute");
  settings.seed = static_cast<std::uint64_t>(object.integer("seed"));
  return settings;
}

bool is_setting(std::string_view name) {
  return parse_json(to_text(TrainSettings()), "settings").contains(name);
}

TrainSettings resumed_settings(const TrainSettings& begun, const TrainSettings& given,
                               const std::vector<std::string>& names) {
  Json merged = parse_json(to_text(begun), "settings");
  const Json anew = parse_json(to_text(given), "settings");
  for (const std::string& name : names) {
    if (std::ranges::find(kMayChange, name) == kMayChange.end() && merged[name] != anew[name]) {
      throw Error(ErrorKind::Usage,
                  fmt::format("--{}: this run was begun with {}, which cannot change on its way; "
                              "leave --{} away, or begin a new run",
                              name, merged[name].dump(), name));
    }
    merged[name] = anew[name];
  }
  return parse_train_settings(merged.dump(), "settings");
}

}  // namespace trireme::cli
