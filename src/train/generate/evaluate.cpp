#include "trireme/evaluate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "train/clock.h"
#include "train/generate/inference_ranks.h"
#include "train/generate/source.h"
#include "train/step/step_graph.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/model_dims.h"

namespace trireme {
namespace {

using train::Clock;
using train::ModelSource;
using train::ShardedExecution;

constexpr std::int64_t kDefaultBatch = 8;
constexpr std::int64_t kLongestDefault = 1024;

/// The data and the compiled forward pass.
struct PreparedData {
  ModelSource source{};
  TrainData data{};
  const Batches* batches = nullptr;
  BatchShape batch{};
  std::vector<ModelParameter> parameters{};
  std::optional<CompiledPlan> compiled{};
};

/// The settings of a run that would train on this data.
TrainSettings data_settings(const EvaluateOptions& options, const ModelSource& source) {
  TrainSettings settings = source.settings.value_or(TrainSettings());
  if (!source.settings) {
    settings.model = options.source.model;
    settings.length = std::min(source.config.context, kLongestDefault);
    settings.batch = kDefaultBatch;
  }
  if (!options.source.tokenizer.empty()) {
    settings.tokenizer = options.source.tokenizer;
  }
  if (!options.data.empty()) {  // all of it
    settings.data = options.data;
    settings.validation_data = options.data;
  }
  settings.length = options.length.value_or(settings.length);
  settings.batch = options.batch.value_or(settings.batch);
  settings.vocabulary = source.config.vocabulary;
  return settings;
}

TrainData open_for(const TrainSettings& settings, const ModelSource& source,
                   const DataInput& input) {
  try {
    return open_train_data(settings, source.config, input);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("--vocabulary")) {  // not an option here
      throw Error(
          ErrorKind::Usage,
          fmt::format("--data: it has more tokens than the {} that {} knows; give data like "
                      "what the model was trained on",
                      source.config.vocabulary, source.name));
    }
    throw;
  }
}

PreparedData prepare(const EvaluateOptions& options) {
  PreparedData prepared;
  prepared.source = train::open_model_source(options.source);
  const TrainSettings settings = data_settings(options, prepared.source);
  const ModelConfig& config = prepared.source.config;
  DataInput input = options.input;
  input.run_folder = options.source.run;
  prepared.data = open_for(settings, prepared.source, input);
  prepared.batches = prepared.data.validation.get();
  require(prepared.batches != nullptr,
          fmt::format("{} set no data aside for validation; give --data", prepared.source.name));
  require(
      settings.length <= config.context,
      fmt::format("--length is {}; the model's context is {}", settings.length, config.context));
  prepared.batch = {settings.batch, settings.length};
  Model model = make_model(std::get<ModelConfig>(for_inference(config)), prepared.batch);
  prepared.parameters = std::move(model.parameters);
  DimNames names = dim_names(model.graph);
  const Plan plan = train::make_evaluation_plan(options.plan, model.graph);
  prepared.compiled.emplace(NamedGraph{.graph = std::move(model.graph), .names = std::move(names)},
                            plan);
  return prepared;
}

/// How many windows an epoch of the data has.
std::int64_t windows_of(const Batches& batches) {
  std::int64_t count = 1;
  while (batches.advance({}, count).epoch == 0) {
    count *= 2;
  }
  std::int64_t least = count / 2;  // the last that is still in the first epoch
  while (count - least > 1) {
    const std::int64_t middle = least + (count - least) / 2;
    (batches.advance({}, middle).epoch == 0 ? least : count) = middle;
  }
  return count;
}

/// Evaluates on one rank.
class Evaluation {
 public:
  Evaluation(const PreparedData& prepared, ShardedExecution& execution)
      : prepared_(prepared), execution_(execution) {
    const std::int64_t tokens = prepared.batch.sequences * prepared.batch.length;
    inputs_.resize(tokens);
    targets_.resize(tokens);
  }

  /// The mean over the windows. Those that do not fill a batch take one each, in which they repeat.
  double run(std::int64_t windows, const std::function<void(std::int64_t)>& progress) {
    const std::int64_t size = prepared_.batch.sequences;
    double sum = 0;
    for (std::int64_t at = 0; at < windows;) {
      const bool whole = windows - at >= size;
      fill(at, whole);
      sum += static_cast<double>(whole ? size : 1) * loss();
      at += whole ? size : 1;
      progress(at);
    }
    return sum / static_cast<double>(windows);
  }

 private:
  void fill(std::int64_t first, bool whole) {
    const std::size_t length = prepared_.batch.length;
    const std::size_t filled = whole ? inputs_.size() : length;
    const DataPosition at = prepared_.batches->advance({}, first);
    prepared_.batches->fill(at, {std::as_writable_bytes(std::span(inputs_).first(filled)),
                                 std::as_writable_bytes(std::span(targets_).first(filled))});
    for (std::vector<std::int32_t>* all : {&inputs_, &targets_}) {
      for (std::size_t i = filled; i < all->size(); ++i) {
        (*all)[i] = (*all)[i - length];
      }
    }
  }

  [[nodiscard]] double loss() {
    execution_.write("tokens", std::as_bytes(std::span(inputs_)));
    execution_.write("targets", std::as_bytes(std::span(targets_)));
    execution_.run();
    return execution_.number("loss");
  }

  const PreparedData& prepared_;
  ShardedExecution& execution_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

}  // namespace

std::vector<std::string> problems(const EvaluateOptions& o) {
  std::vector<std::string> found = problems(o.source);
  const auto require_positive = [&](const char* option, std::optional<std::int64_t> value) {
    if (value && *value < 1) {
      found.push_back(fmt::format("{} is {}; it must be 1 or more", option, *value));
    }
  };
  require_positive("--length", o.length);
  require_positive("--batch", o.batch);
  if (!o.source.model.empty() && o.data.empty()) {
    found.emplace_back("a --model folder has no data: give --data");
  }
  if (!o.make_device) {
    found.emplace_back("EvaluateOptions::make_device is empty; use cpu_devices()");
  }
  return found;
}

void evaluate(const EvaluateOptions& options) {
  require_valid(options);
  const PreparedData prepared = prepare(options);
  const std::int64_t windows = windows_of(*prepared.batches);
  const auto body = [&](Device& device, Communicator* communicator) {
    const bool leads = communicator == nullptr || communicator->rank() == 0;
    ShardedExecution execution(*prepared.compiled, device, communicator);
    train::load_parameters(prepared.source, prepared.parameters, execution);
    EvaluateSummary summary;
    summary.model = prepared.source.name;
    summary.data = prepared.data.name;
    summary.sequences = windows;
    summary.tokens = windows * prepared.batch.length;
    const Clock::time_point start = Clock::now();
    summary.loss = Evaluation(prepared, execution).run(windows, [&](std::int64_t done) {
      if (leads && options.on_progress) {
        options.on_progress(done, windows);
      }
    });
    summary.time = train::since(start);
    if (leads && options.on_end) {
      options.on_end(summary);
    }
  };
  train::run_inference(
      {.mesh = options.plan.mesh, .make_device = options.make_device, .kind = options.rank_kind},
      body);
}

double perplexity(const EvaluateSummary& summary) {
  return std::exp(summary.loss);
}

std::string to_json(const EvaluateSummary& summary) {
  Json json;
  json["model"] = summary.model;
  json["data"] = summary.data;
  json["loss"] = summary.loss;
  json["perplexity"] = perplexity(summary);
  json["tokens"] = summary.tokens;
  json["sequences"] = summary.sequences;
  json["seconds"] = summary.time.count;
  json["tokens_per_second"] = static_cast<double>(summary.tokens) / summary.time.count;
  return json.dump();
}

}  // namespace trireme
