#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "base/json.h"
#include "train/step/learning_rate.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/message.h"
#include "trireme/recompute_choice.h"
#include "trireme/sync.h"
#include "trireme/train_settings.h"

namespace trireme {
namespace {

/// Settings that may change when a run resumes. Its checkpoints and data position depend on all others.
constexpr std::array<std::string_view, 20> kMayChange{
    "batch",         "clip",     "device",       "dropout",   "encrypt",
    "deterministic", "keep",     "gpu-exchange", "keep-best", "memory-limit",
    "optimizer",     "patience", "rate",         "recompute", "save-every",
    "steps",         "sync",     "tensorboard",  "threads",   "validate-every"};

/// Settings that name files, which may have moved. The run checks that their contents are the same.
constexpr std::array<std::string_view, 3> kMayMove{"data", "tokenizer", "validation-data"};

/// Generous limits that keep products of sizes from overflowing.
constexpr std::int64_t kMaxSteps = 1'000'000'000'000;
constexpr std::int64_t kMaxKeep = 1'000'000;
constexpr std::uint64_t kMaxSeed = 1'000'000'000'000'000;
constexpr std::int64_t kMaxLength = 1 << 20U;
constexpr std::int64_t kMaxTokensPerStep = 1 << 28U;
constexpr std::int64_t kMaxVocabulary = 10'000'000;

/// Collects error messages.
class Problems {
 public:
  void require(bool holds, std::string_view otherwise) {
    if (!holds) {
      found_.emplace_back(otherwise);
    }
  }
  void require_between(std::string_view option, std::int64_t value, std::int64_t least,
                       std::int64_t most) {
    require(value >= least && value <= most,
            fmt::format("{} is {}; it must be {} to {}", option, value, least, most));
  }
  /// Requires a value in [0, 1).
  void require_share(std::string_view option, double value) {
    require(value >= 0 && value < 1,
            fmt::format("{} is {}; it must be 0 or more and below 1", option, value));
  }
  /// Runs `parse`, and records the error if it throws. Returns whether it succeeded.
  template <class Parse>
  bool require_parses(std::string_view option, const std::string& value, const Parse& parse) {
    try {
      (void)parse(value);
      return true;
    } catch (const Error& error) {
      found_.push_back(fmt::format("{}: {}", option, error.what()));
      return false;
    }
  }
  [[nodiscard]] std::vector<std::string> found() && { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void check_sizes(const TrainSettings& s, Problems& problems) {
  problems.require_between("--steps", s.steps, 0, kMaxSteps);
  problems.require(s.seed <= kMaxSeed,
                   fmt::format("--seed is {}; it must be 0 to {}", s.seed, kMaxSeed));
  problems.require_between("--vocabulary", s.vocabulary, 0, kMaxVocabulary);
  problems.require_between("--batch", s.batch, 1, kMaxTokensPerStep);
  problems.require_between("--length", s.length, 1, kMaxLength);
  const bool counts = s.batch <= kMaxTokensPerStep && s.length <= kMaxLength;
  problems.require(
      !counts || s.batch * s.length <= kMaxTokensPerStep,
      fmt::format("--batch {} times --length {} is {} tokens per step; the limit is {}", s.batch,
                  s.length, counts ? s.batch * s.length : 0, kMaxTokensPerStep));
}

void check_optimization(const TrainSettings& s, Problems& problems) {
  problems.require(s.clip >= 0 && std::isfinite(s.clip),
                   fmt::format("--clip is {}; it must be above 0, or 0 to never clip", s.clip));
  problems.require_share("--dropout", s.dropout);
  problems.require_parses("--optimizer", s.optimizer, parse_optimizer);
  if (!s.rate.empty()) {
    const train::LearningRate otherwise{.steps = std::max<std::int64_t>(1, s.steps)};
    problems.require_parses("--rate", s.rate, [&](const std::string& text) {
      return train::parse_learning_rate(text, otherwise);
    });
  }
}

/// Runs saved before there were several optimizers have the weight decay of AdamW.
std::string read_optimizer(const JsonObject& object) {
  return object.find("optimizer") != nullptr
             ? object.text("optimizer")
             : fmt::format("adamw,weight-decay={}", object.number("decay"));
}

void check_loss_scale(double scale, DType type, Problems& problems) {
  constexpr double kLargest = 1e30;  // leaves headroom below the f32 maximum
  problems.require(scale >= 1 && scale <= kLargest,
                   fmt::format("--loss-scale is {}; it must be 1 to {}", scale, kLargest));
  problems.require(type == DType::F16 || scale == LossScaling{}.initial,
                   "--loss-scale is for --dtype f16, whose gradients need it; leave it out");
}

void check_dtype(const TrainSettings& s, Problems& problems) {
  const std::vector<std::string> types{"f32", "bf16", "f16", "f64"};
  if (std::ranges::find(types, s.dtype) == types.end()) {
    problems.require(false, fmt::format("--dtype: cannot train in {}; use f32, bf16, f16 or f64",
                                        in_quotes(s.dtype)));
    return;
  }
  const DType type = parse_dtype(s.dtype);
  problems.require(s.master == "f32" || s.master == "none",
                   fmt::format("--master: unknown '{}'; use f32 or none", s.master));
  check_loss_scale(s.loss_scale, type, problems);
}

/// Runs saved before these existed have none.
void read_saving(const JsonObject& object, TrainSettings& settings) {
  if (object.find("save-every") != nullptr) {
    settings.save_every = object.text("save-every");
    settings.keep = object.integer("keep");
    settings.validate_every = object.integer("validate-every");
    settings.tensorboard = object.require("tensorboard").get<bool>();
  }
  if (object.find("keep-best") != nullptr) {
    settings.keep_best = object.require("keep-best").get<bool>();
    settings.patience = object.integer("patience");
  }
}

/// Runs saved before these existed have none.
void read_machine(const JsonObject& object, TrainSettings& settings) {
  if (object.find("threads") != nullptr) {
    settings.threads = object.integer("threads");
    settings.device = object.text("device");
    settings.gpu_exchange = object.text("gpu-exchange");
    settings.memory_limit = object.text("memory-limit");
    settings.encrypt = object.require("encrypt").get<bool>();
    settings.deterministic = object.require("deterministic").get<bool>();
  }
}

void check_machine(const TrainSettings& s, Problems& problems) {
  constexpr std::int64_t kMaxThreads = 1024;
  problems.require(
      s.threads >= 0 && s.threads <= kMaxThreads,
      fmt::format("--threads is {}; it must be 0 (all cores) to {}", s.threads, kMaxThreads));
  if (!s.memory_limit.empty()) {
    problems.require_parses("--memory-limit", s.memory_limit,
                            [](const std::string& text) { return parse_bytes(text); });
  }
}

void check_validation(const TrainSettings& s, Problems& problems) {
  problems.require_share("--validation", s.validation);
  problems.require_between("--validate-every", s.validate_every, 0, kMaxSteps);
  problems.require_between("--patience", s.patience, 0, kMaxSteps);
  const bool validates = s.validate_every > 0 && (s.validation > 0 || !s.validation_data.empty());
  problems.require(validates || !s.keep_best,
                   "--keep-best requires --validate-every and validation data");
  problems.require(validates || s.patience == 0,
                   "--patience requires --validate-every and validation data");
}

}  // namespace

std::vector<std::string> problems(const TrainSettings& s) {
  Problems problems;
  check_sizes(s, problems);
  check_optimization(s, problems);
  check_validation(s, problems);
  check_machine(s, problems);
  problems.require_parses("--save-every", s.save_every, parse_save_interval);
  problems.require_between("--keep", s.keep, 1, kMaxKeep);
  check_dtype(s, problems);
  problems.require_parses("--recompute", s.recompute, parse_recompute);
  problems.require_parses("--sync", s.sync, parse_sync);
  problems.require(s.tokenizer.empty() || !s.data.empty(),
                   "--tokenizer is for the text of --data; give that too");
  problems.require(s.validation_data.empty() || !s.data.empty(),
                   "--validation-data goes with --data; give that too");
  return std::move(problems).found();
}

std::string to_text(const TrainSettings& s) {
  const Json json{{"model", s.model},
                  {"weights", s.weights},
                  {"data", s.data},
                  {"validation-data", s.validation_data},
                  {"tokenizer", s.tokenizer},
                  {"vocabulary", s.vocabulary},
                  {"batch", s.batch},
                  {"length", s.length},
                  {"steps", s.steps},
                  {"optimizer", s.optimizer},
                  {"rate", s.rate},
                  {"clip", s.clip},
                  {"dropout", s.dropout},
                  {"experts", s.experts},
                  {"validation", s.validation},
                  {"dtype", s.dtype},
                  {"master", s.master},
                  {"loss-scale", s.loss_scale},
                  {"recompute", s.recompute},
                  {"seed", s.seed},
                  {"sync", s.sync},
                  {"save-every", s.save_every},
                  {"keep", s.keep},
                  {"validate-every", s.validate_every},
                  {"keep-best", s.keep_best},
                  {"patience", s.patience},
                  {"tensorboard", s.tensorboard},
                  {"threads", s.threads},
                  {"device", s.device},
                  {"gpu-exchange", s.gpu_exchange},
                  {"deterministic", s.deterministic},
                  {"memory-limit", s.memory_limit},
                  {"encrypt", s.encrypt}};
  return json.dump(2) + "\n";
}

namespace {

/// A list of texts. Runs saved before there could be several have one text; "": none.
std::vector<std::string> texts(const Json* value) {
  std::vector<std::string> all;
  if (value != nullptr && value->is_string() && *value != "") {
    all.push_back(value->get<std::string>());
  }
  for (std::size_t i = 0; value != nullptr && value->is_array() && i < value->size(); ++i) {
    all.push_back(value->at(i).get<std::string>());
  }
  return all;
}

}  // namespace

TrainSettings parse_train_settings(std::string_view text, std::string_view what) {
  const Json json = parse_json(text, what);
  std::vector<std::string> known = setting_names();
  known.emplace_back("decay");
  const JsonObject object(json, what, "", known);
  // Field by field: GCC 12 destroys members twice when one in the middle of a braced list throws.
  TrainSettings settings;
  settings.model = object.text("model");
  settings.weights = object.optional_text("weights");
  settings.data = texts(object.find("data"));
  settings.validation_data = texts(object.find("validation-data"));
  settings.tokenizer = object.text("tokenizer");
  if (object.find("vocabulary") != nullptr) {  // runs saved before it existed have none
    settings.vocabulary = object.integer("vocabulary");
  }
  settings.batch = object.integer("batch");
  settings.length = object.integer("length");
  settings.steps = object.integer("steps");
  settings.optimizer = read_optimizer(object);
  settings.rate = object.text("rate");
  settings.clip = object.number("clip");
  settings.dropout = object.number("dropout");
  settings.experts = object.optional_text("experts");
  settings.validation = object.number("validation");
  settings.dtype = object.text("dtype");
  // Runs saved before master weights existed have none.
  settings.master = object.find("master") != nullptr ? object.text("master") : "none";
  settings.loss_scale = object.optional_number("loss-scale").value_or(settings.loss_scale);
  settings.recompute = object.text("recompute");
  settings.seed = static_cast<std::uint64_t>(object.integer("seed"));
  if (object.find("sync") != nullptr) {  // runs saved before it existed have none
    settings.sync = object.text("sync");
  }
  read_saving(object, settings);
  read_machine(object, settings);
  return settings;
}

TrainSettings load_settings(const std::string& run_folder) {
  const std::string path = run_folder + "/settings.json";
  if (!std::filesystem::exists(path)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("'{}' is not the folder of a run: it has no settings.json", run_folder));
  }
  return parse_train_settings(read_file(path), path);
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  const Json json = parse_json(to_text(TrainSettings()), "settings");
  for (const auto& [name, value] : json.items()) {
    names.push_back(name);
  }
  return names;
}

bool is_setting(std::string_view name) {
  const std::vector<std::string> names = setting_names();
  return std::ranges::find(names, name) != names.end();
}

namespace {

/// What a run started with. A vocabulary of 0 means that none was given.
std::string start_text(const std::string& name, const Json& value) {
  const std::string text = value.dump();
  const bool is_absent = text == "[]" || text == "\"\"" || (name == "vocabulary" && text == "0");
  return is_absent ? "without it" : "with " + text;
}

/// Its settings may change, but its state has a meaning for one kind only.
void require_same_optimizer(const std::string& own, const std::string& given) {
  const std::string name(name_of(parse_optimizer(own)));
  const auto other = parsed("--optimizer", given, parse_optimizer);
  require(name == name_of(other),
          fmt::format("--optimizer: this run started with {0}, whose state {1} cannot use; keep "
                      "{0}, or start a new run",
                      name, name_of(other)));
}

}  // namespace

TrainSettings resumed_settings(const TrainSettings& own, const TrainSettings& given,
                               const std::vector<std::string>& names) {
  Json merged = parse_json(to_text(own), "settings");
  const Json anew = parse_json(to_text(given), "settings");
  for (const std::string& name : names) {
    const bool may_change = std::ranges::find(kMayChange, name) != kMayChange.end();
    const bool may_move = std::ranges::find(kMayMove, name) != kMayMove.end() && !own.data.empty();
    if (!may_change && !may_move && merged[name] != anew[name]) {
      throw Error(ErrorKind::Usage,
                  fmt::format("--{0}: this run started {1}, which cannot change later; leave "
                              "out --{0}, or start a new run",
                              name, start_text(name, merged[name])));
    }
    merged[name] = anew[name];
  }
  require_same_optimizer(own.optimizer, merged["optimizer"].get<std::string>());
  return parse_train_settings(merged.dump(), "settings");
}

}  // namespace trireme
