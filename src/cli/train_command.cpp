// trireme train: from nothing, or from a checkpoint, to a trained model and the record of how it went.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "base/cores.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/parsed.h"
#include "cli/train_data.h"
#include "cli/train_display.h"
#include "cli/train_failure.h"
#include "cli/train_memory.h"
#include "cli/train_model.h"
#include "cli/train_plan.h"
#include "comm/rendezvous/launch_variables.h"
#include "train/checkpoint_folder.h"
#include "train/event_file.h"
#include "train/trainer.h"
#include "trireme/comm.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/trace.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme train                                  a small GPT on a generated language, a "
    "minute\n"
    "  trireme train --data book.txt --steps 2000     any file, a byte a token\n"
    "  trireme train --model llama-tiny --json        a line of JSON for each step\n"
    "  trireme train --model conv-mini --batch 64     a classifier of generated images\n"
    "  trireme train --experts 8,per-token=2,shared=1 a mixture of experts\n"
    "  trireme train --model path/to/folder           a config.json and weights of Hugging Face's\n"
    "  trireme train --export gpt-mini                and into such a folder\n"
    "  trireme train --resume runs/gpt-mini-001 --steps 800\n"
    "  trireme train -n 4 --mesh data=2,tensor=2 --zero 1   on four processes\n"
    "\n"
    "Ctrl-C finishes the step, saves, and says how to go on.";

/// Steps over which the last word on the loss is taken.
constexpr std::size_t kLastSteps = 20;
constexpr std::int64_t kValidationBatches = 8;
/// The step that is recorded kernel by kernel: the first ones touch memory for the first time.
constexpr std::int64_t kTracedStep = 3;

struct Options {
  TrainSettings settings{};
  std::vector<std::string> given{};  ///< settings, by name
  std::string run_folder{};
  std::string resume{};
  std::string export_folder{};
  PlanOptions plan{};
  int threads = 0;
  std::optional<Bytes> memory_limit{};
  bool tensorboard = false;
  std::int64_t save_every = 0;
  std::int64_t validate_every = 0;
  bool json = false;
};

/// "runs/gpt-mini-001", or the first number that is free.
std::string free_run_folder(const std::string& model) {
  for (int number = 1;; ++number) {
    std::string folder = fmt::format("runs/{}-{:03}", model, number);
    if (!fs::exists(folder)) {
      return folder;
    }
  }
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::Usage,
                fmt::format("cannot make the folder '{}': {}; choose another by --run-folder",
                            folder, error.message()));
  }
}

/// What a user types to run this program: ./run says so.
std::string called_as() {
  // One thread: between steps.
  const char* name = std::getenv("TRIREME_CALLED_AS");  // NOLINT(concurrency-mt-unsafe)
  return name == nullptr || *name == '\0' ? "trireme" : name;
}

Seconds wall_time() {
  return {
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

/// "FOLDER/events.out.tfevents.SECONDS.trireme.NUMBER": TensorBoard reads the files of a run in the order of
/// their names.
std::string free_event_file(const std::string& folder, Seconds now) {
  for (int number = 0;; ++number) {
    std::string path = fmt::format("{}/events.out.tfevents.{:.0f}.trireme.{:03}", folder,
                                   std::floor(now.count), number);
    if (!fs::exists(path)) {
      return path;
    }
  }
}

NamedModel name_model(const Options& options) {
  NamedModel named = parsed("--model", options.settings.model, [&](const std::string& /*model*/) {
    return name_train_model(options.settings, options.resume);
  });
  const bool length_given = std::ranges::find(options.given, "length") != options.given.end();
  if (length_given && !std::holds_alternative<ModelConfig>(named.config)) {
    throw Error(ErrorKind::Usage, fmt::format("{} has no sequences that could have a length; leave "
                                              "out --length",
                                              name_of(named.config)));
  }
  return named;
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) {
    throw Error(ErrorKind::Usage, otherwise);
  }
}

/// Field by field: GCC 12 destroys members twice when one in the middle of a braced list throws.
train::TrainerOptions trainer_options(const TrainSettings& settings, const AnyModelConfig& model,
                                      const Plan& plan) {
  train::TrainerOptions options;
  options.model = model;
  options.batch = {settings.batch, settings.length};
  options.rate = settings.learning_rate(model);
  options.training.optimizer = AdamW{.beta2 = 0.95, .decay = settings.decay};
  options.training.clip_limit =
      settings.clip > 0 ? settings.clip : std::numeric_limits<double>::infinity();
  options.training.each_alone = table_of(plan).weights == WeightVersions::Newest;
  require(!options.training.each_alone || settings.clip == 0,
          fmt::format("the schedule {} updates each stage as soon as it can, so that gradients "
                      "cannot be clipped by the norm of all; use --clip 0, or another schedule",
                      plan.schedule));
  options.training.no_decay = {".bias"};
  options.training.master_weights = settings.master == "f32";
  if (dtype_of(model) == DType::F16) {
    options.training.loss_scaling.emplace().first = settings.loss_scale;
  }
  const RecomputeChoice recompute = parse_recompute(settings.recompute);
  options.recompute = recompute.mode;
  options.activation_budget = recompute.budget;
  options.seed = settings.seed;
  return options;
}

/// The checkpoint that the run goes on from. Throws Error(Usage) if it has all its steps.
train::LoadedCheckpoint open_checkpoint(const Options& options) {
  auto loaded = train::load_latest(options.resume + "/checkpoints");
  if (!loaded) {
    throw Error(ErrorKind::Input,
                fmt::format("{} has no checkpoint to resume from", options.resume));
  }
  const std::int64_t step = loaded->checkpoint.info.step;
  if (step >= options.settings.steps && options.export_folder.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("--resume: this run has its {} steps already; give more, such as "
                            "--steps {}",
                            step, 2 * step));
  }
  return std::move(*loaded);
}

/// The first rank on which it holds; as many as there are ranks if it does on none. All ranks ask.
int first_rank_with(World& world, bool here) {
  std::int32_t first = here ? world.rank() : world.size();
  CallOptions options;
  options.reduction = Reduction::Min;
  world.all().run(allreduce<std::int32_t>(std::span(&first, 1), options));
  return first;
}

/// Ends a rank, where another tells what is wrong.
struct ToldByAnother {};

/// On one device, or as one of several ranks, which all do the same; the first has the files and the terminal.
class Run {
 public:
  /// Ends early, and well, once `interrupted` is not 0.
  Run(const Options& options, TrainDisplay& display, const train::Ranks& ranks,
      SharedNumber& interrupted)
      : ranks_(ranks),
        interrupted_(interrupted),
        options_(options),
        settings_(options.settings),
        display_(display),
        named_(name_model(options)),
        data_(open_train_data(settings_, named_.config)),
        model_(open_train_model(settings_, named_, data_.vocabulary, !options.resume.empty())),
        device_(make_cpu_device(cpu_options())),
        trainer_(options_that_fit(), *device_, ranks_),
        folder_(options.resume.empty()
                    ? (options.run_folder.empty() ? free_run_folder(name_of(model_.config))
                                                  : options.run_folder)
                    : options.resume) {
    inputs_.resize(static_cast<std::size_t>(trainer_.input_bytes().count));
    targets_.resize(static_cast<std::size_t>(trainer_.target_bytes().count));
    begin_with_weights(model_, trainer_);
    if (model_.weights) {
      settings_.weights = model_.weights->path();
    }
    description_ = run_description(model_);
    if (!options_.export_folder.empty()) {
      check_hugging_face_export(weighted(model_, trainer_), export_to());
    }
  }

  void run() {
    open_folder();
    learn_facts();
    if (leads()) {
      display_.begin(facts_);
    }
    const InterruptGuard guard(interrupted_);
    const Clock::time_point start = Clock::now();
    while (trainer_.step() < settings_.steps && !any(interrupted_.get() != 0)) {
      one_step();
      if (options_.save_every > 0 && trainer_.step() % options_.save_every == 0) {
        save();
      }
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    save();
    export_model();
    finish(seconds);
  }

 private:
  [[nodiscard]] bool leads() const { return ranks_.rank() == 0; }

  /// The first rank on which it holds; as many as there are ranks if it does on none.
  int first_with(bool here) {
    return ranks_.communicator == nullptr ? (here ? 0 : 1)
                                          : first_rank_with(ranks_.communicator->world(), here);
  }
  bool any(bool here) { return first_with(here) < ranks_.count(); }

  /// What ends all ranks is told by one.
  void require_told_by(int teller) const {
    if (ranks_.rank() != teller) {
      throw ToldByAnother{};
    }
  }

  /// Ranks of one machine share its cores.
  [[nodiscard]] CpuOptions cpu_options() const {
    CpuOptions options;
    options.threads = options_.threads;
    if (ranks_.count() > 1) {
      const int cores = usable_cores();
      options.threads = options.threads > 0 ? options.threads : std::max(1, cores / ranks_.count());
      options.pinned = false;
    }
    return options;
  }

  [[nodiscard]] train::TrainerOptions options_that_fit() const {
    train::TrainerOptions options = trainer_options(settings_, model_.config, ranks_.plan);
    if (ranks_.count() > 1) {
      return options;
    }
    require_memory(options, memory_for_training(options_.memory_limit), *device_);
    return options;
  }

  void open_folder() {
    if (!options_.resume.empty()) {
      resume();
    }
    if (!leads()) {
      return;
    }
    make_folder(folder_);
    if (ranks_.count() > 1) {
      write_file(folder_ + "/plan.json", to_text(ranks_.plan));
    }
    write_file(folder_ + "/settings.json", to_text(settings_));
    if (!description_.empty()) {
      write_file(folder_ + "/config.json", description_);
    }
    metrics_.open(folder_ + "/metrics.jsonl", std::ios::app);
    if (!metrics_) {
      throw Error(ErrorKind::System, fmt::format("cannot write {}/metrics.jsonl", folder_));
    }
    if (options_.tensorboard) {
      const Seconds now = wall_time();
      events_.emplace(free_event_file(folder_, now), now);
    }
  }

  /// As TensorBoard groups them: by what comes before the slash.
  void add_event(const TrainMoment& m) {
    const std::string speed = fmt::format("speed/{}_per_second", facts_.unit);
    std::vector<train::EventScalar> scalars{
        {"loss/training", m.loss},
        {"optimizer/learning_rate", m.rate},
        {"optimizer/gradient_norm", m.gradient_norm},
        {speed, static_cast<double>(facts_.units_per_step) / m.step_time.count},
        {"speed/mfu", mfu(facts_, m.step_time)},
        {"speed/hfu", hfu(facts_, m.step_time)},
        {"memory/peak_bytes", static_cast<double>(facts_.memory.count)}};
    if (m.loss_scale) {
      scalars.push_back({"optimizer/loss_scale", *m.loss_scale});
    }
    if (m.validation) {
      scalars.push_back({"loss/validation", *m.validation});
    }
    events_->add(m.step, wall_time(), scalars);
  }

  void resume() {
    const train::LoadedCheckpoint loaded = open_checkpoint(options_);
    if (!loaded.warning.empty() && leads()) {
      fmt::print(stderr, "trireme: {}\n", loaded.warning);
    }
    trainer_.restore(loaded.checkpoint);
    const std::optional<NonFinite> found = trainer_.find_non_finite_state();
    if (const int teller = first_with(found.has_value()); teller < ranks_.count()) {
      require_told_by(teller);
      throw Error(ErrorKind::Input,
                  fmt::format("{} cannot be gone on from, for {}; remove that folder to go on from "
                              "the checkpoint before it",
                              loaded.checkpoint.path, to_text(*found, trainer_.program())));
    }
    position_ = loaded.checkpoint.info.data;
  }

  void learn_facts() {
    const Flops model = trainer_.flops().model();
    const Flops hardware = trainer_.flops().hardware();
    const std::string weights = model_.weights ? weights_text(*model_.weights) : "";
    const double peak = train::measure_peak_flops(*device_, parse_dtype(settings_.dtype));
    facts_ = {.model = name_of(model_.config),
              .weights = weights,
              .data = data_.name,
              .device = device_->name(),
              .parameters = trainer_.parameter_count(),
              .vocabulary = data_.vocabulary,
              .first_step = trainer_.step(),
              .steps = settings_.steps,
              .unit = data_.text ? "tokens" : "examples",
              .units_per_step = settings_.batch * (data_.text ? settings_.length : 1),
              .model_flops = model.products,
              .hardware_flops = hardware.products,
              .peak_flops = peak * ranks_that_run(),
              .memory = trainer_.memory(),
              .memory_parts = {},
              .ranks = ranks_text(),
              .bytes_along_data = {},
              .marks = data_.marks};
    const Bytes arena = trainer_.program().arena;
    facts_.memory_parts = memory_parts(memory_use(trainer_.program()), arena,
                                       {trainer_.memory().count - arena.count});
    if (ranks_.plan.compression.any()) {
      facts_.bytes_along_data =
          compressed_bytes(ranks_.plan, trainer_options(settings_, model_.config, ranks_.plan));
    }
  }

  /// How many ranks have cores of their own to compute on at the same time.
  [[nodiscard]] double ranks_that_run() const {
    const double cores = usable_cores();
    const double threads = std::max(1, cpu_options().threads);
    return ranks_.count() == 1 ? 1 : std::min<double>(ranks_.count(), cores / threads);
  }

  /// "4 ranks, data=2,tensor=2, ZeRO 1"; "" on one device.
  [[nodiscard]] std::string ranks_text() const {
    const Plan& plan = ranks_.plan;
    if (ranks_.count() == 1) {
      return {};
    }
    std::string text = fmt::format("{} ranks: {}", ranks_.count(), to_text(plan.mesh));
    text += plan.zero > 0 ? fmt::format(", ZeRO {}", plan.zero) : "";
    text += plan.compression.any() ? ", gradients by " + to_text(plan.compression) : "";
    text += plan.microbatches > 1 ? fmt::format(", {} micro-batches", plan.microbatches) : "";
    text += plan.mesh.size("pipe") > 1 ? fmt::format(" by {}", plan.schedule) : "";
    return text;
  }

  /// Again and again with half the loss scale, as long as that may help.
  train::StepResult take_step(Trace* trace) {
    train::StepResult result;
    do {
      if (trace != nullptr) {
        *trace = {};
      }
      result = trainer_.run_step(inputs_, targets_, trace);
      overflows_ += result.overflowed ? 1 : 0;
    } while (result.overflowed);
    return result;
  }

  void one_step() {
    data_.training->fill(position_, {inputs_, targets_});
    const bool traced = trainer_.step() - facts_.first_step + 1 == kTracedStep;
    Trace trace;
    const Clock::time_point start = Clock::now();
    const train::StepResult result = take_step(traced ? &trace : nullptr);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (traced && leads()) {
      trace.title = fmt::format("{}, step {}", name_of(model_.config), result.step);
      write_file(folder_ + "/trace.json", to_chrome_json(trace));
    }
    if (!result.finite) {
      give_up(result, trainer_.find_non_finite());
    }
    position_ = data_.training->advance(position_, settings_.batch);
    last_result_ = result;
    TrainMoment moment{.step = result.step,
                       .loss = result.loss,
                       .gradient_norm = result.gradient_norm,
                       .rate = result.rate,
                       .step_time = {seconds},
                       .loss_scale = result.loss_scale,
                       .validation = {}};
    if (options_.validate_every > 0 && result.step % options_.validate_every == 0) {
      moment.validation = validate();
    }
    first_loss_ = first_loss_.value_or(result.loss);
    last_losses_.push_back(result.loss);
    if (last_losses_.size() > kLastSteps) {
      last_losses_.pop_front();
    }
    if (!leads()) {
      return;
    }
    metrics_ << moment_json(facts_, moment) << "\n";
    if (events_) {
      add_event(moment);
    }
    display_.step(facts_, moment);
  }

  /// A loss that is no number cannot get better. The steps before it are kept, if they are sound.
  [[noreturn]] void give_up(const train::StepResult& result, std::optional<NonFinite> found) {
    const bool sound = !any(!found || found->instruction < 0);
    if (sound && trainer_.step() > facts_.first_step) {
      save();
    }
    const int teller = first_with(found.has_value());
    require_told_by(teller < ranks_.count() ? teller : 0);
    TrainFailure failure;
    failure.result = result;
    failure.found = found;
    failure.run_folder = folder_;
    failure.checkpoint = newest_checkpoint();
    failure.at_once = trainer_.step() == facts_.first_step;
    failure.rate = smaller_rate(result.rate);
    throw Error(ErrorKind::Input, failure_text(failure, trainer_.program()));
  }

  [[nodiscard]] std::string newest_checkpoint() const {
    const std::string checkpoints = folder_ + "/checkpoints";
    const std::vector<train::SavedStep> saved = train::list_steps(checkpoints);
    return saved.empty() ? "" : checkpoints + "/" + saved.front().name;
  }

  /// The usual rate of the model or, if that was too large, a third of what it was.
  [[nodiscard]] std::string smaller_rate(double rate) const {
    train::LearningRate smaller = settings_.default_learning_rate(model_.config);
    if (rate <= smaller.peak) {
      smaller.peak = rate / 3;
    }
    smaller.peak = std::stod(fmt::format("{:.2g}", smaller.peak));
    smaller.least = std::stod(fmt::format("{:.2g}", smaller.peak / 10));
    return to_text(smaller);
  }

  std::optional<double> validate() {
    if (!data_.validation) {
      return std::nullopt;
    }
    train::DataPosition at{};
    double sum = 0;
    for (std::int64_t i = 0; i < kValidationBatches; ++i) {
      data_.validation->fill(at, {inputs_, targets_});
      at = data_.validation->advance(at, settings_.batch);
      sum += trainer_.evaluate(inputs_, targets_);
    }
    return sum / static_cast<double>(kValidationBatches);
  }

  /// Never what is not finite: a checkpoint is for going on from it.
  void save() {
    metrics_.flush();
    const std::optional<NonFinite> found = trainer_.find_non_finite_state();
    if (any(found.has_value())) {
      give_up(last_result_, found);
    }
    if (!leads()) {
      trainer_.give_state();
      return;
    }
    (void)train::save_checkpoint(
        folder_ + "/checkpoints",
        trainer_.state({.step = 0, .seed = 0, .data = position_, .config = to_text(settings_)}));
  }

  [[nodiscard]] HuggingFaceExport export_to() const {
    HuggingFaceExport to;
    to.folder = options_.export_folder;
    to.original_config = model_.description;
    return to;
  }

  void export_model() {
    if (!options_.export_folder.empty()) {
      save_hugging_face(
          weighted(model_, trainer_),
          [this](const ModelParameter& parameter) { return trainer_.read(parameter); },
          export_to());
    }
  }

  std::string sample_text() {
    if (settings_.dtype != "f32" || !data_.text) {
      return {};
    }
    constexpr std::int64_t kShown = 60;
    std::int32_t first = 0;
    std::memcpy(&first, inputs_.data(), sizeof(first));
    const std::vector<std::int32_t> all = trainer_.sample({first}, kShown, 0.8, settings_.seed);
    return text_of(data_, all);
  }

  void finish(double seconds) {
    std::optional<double> loss;
    for (const double one : last_losses_) {
      loss = loss.value_or(0) + one / static_cast<double>(last_losses_.size());
    }
    const std::int64_t steps = trainer_.step() - facts_.first_step;
    TrainEnd end;
    end.step = trainer_.step();
    end.first_loss = first_loss_;
    end.loss = loss;
    end.validation = validate();
    end.time = {seconds};
    end.units_per_second = static_cast<double>(steps * facts_.units_per_step) / seconds;
    end.run_folder = folder_;
    end.exported = options_.export_folder;
    end.sample = sample_text();
    end.program = called_as();
    end.tensorboard = options_.tensorboard;
    end.interrupted = trainer_.step() < settings_.steps;
    end.overflows = overflows_;
    if (leads()) {
      display_.end(facts_, end);
    }
  }

  train::Ranks ranks_;
  SharedNumber& interrupted_;
  Options options_;
  TrainSettings settings_;
  TrainDisplay& display_;
  NamedModel named_;
  TrainData data_;
  TrainModel model_;
  std::unique_ptr<Device> device_;
  train::Trainer trainer_;
  std::string folder_;
  std::string description_;
  TrainFacts facts_{};
  train::DataPosition position_{};
  std::vector<std::byte> inputs_;
  std::vector<std::byte> targets_;
  std::optional<double> first_loss_;
  std::deque<double> last_losses_;
  std::int64_t overflows_ = 0;
  train::StepResult last_result_{};
  std::ofstream metrics_;
  std::optional<train::EventFile> events_;
};

/// A resumed run has the settings that it was begun with, but for what is given anew.
Options completed(Options options) {
  if (options.resume.empty()) {
    return options;
  }
  const std::string path = options.resume + "/settings.json";
  if (!fs::exists(path)) {
    throw Error(ErrorKind::Usage, fmt::format("--resume: '{}' is no run's folder: it has no "
                                              "settings.json",
                                              options.resume));
  }
  options.settings = resumed_settings(parse_train_settings(read_file(path), path), options.settings,
                                      options.given);
  return options;
}

/// All that can be known to be wrong before anything is opened or made.
void verify(const Options& o) {
  constexpr int kMostThreads = 1024;
  o.settings.verify();
  require(o.settings.steps > 0 || !o.resume.empty() || !o.export_folder.empty() ||
              !o.settings.weights.empty() || is_model_path(o.settings.model),
          "--steps is 0; it must be 1 or more, unless a model is exported or comes from a file");
  require(o.threads >= 0 && o.threads <= kMostThreads,
          fmt::format("--threads is {}; it must be 0 (all cores) to {}", o.threads, kMostThreads));
  require(o.save_every >= 0,
          fmt::format("--save-every is {}; it must be 0 (at the end only) or more", o.save_every));
  require(o.validate_every >= 0,
          fmt::format("--validate-every is {}; it must be 0 (at the end only) or more",
                      o.validate_every));
  require(o.run_folder.empty() || !fs::exists(o.run_folder + "/settings.json"),
          fmt::format("--run-folder: there is a run in '{0}' already; go on with it by --resume "
                      "{0}, or choose another folder",
                      o.run_folder));
  require(o.run_folder.empty() || !fs::exists(o.run_folder) || fs::is_directory(o.run_folder),
          fmt::format("--run-folder: '{}' is no folder", o.run_folder));
}

/// For an option that takes a path: an empty one, from a variable that is not set say, is no path.
std::string named(const std::string& path) {
  return path.empty() ? "no file is named" : "";
}

std::optional<std::string> variable(const std::string& name) {
  // Before there are threads.
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void run_on(const Options& options, const Plan& plan, World* world, SharedNumber& interrupted) {
  const std::unique_ptr<TrainDisplay> display = make_train_display(options.json);
  std::optional<Communicator> communicator;
  train::Ranks ranks;
  ranks.plan = plan;
  if (world != nullptr) {
    communicator.emplace(*world, plan.mesh);
    ranks.communicator = &*communicator;
  }
  try {
    Run(options, *display, ranks, interrupted).run();
  } catch (const ToldByAnother&) {
    return;
  }
}

/// A rank that computes for long is not a rank that hangs.
WorldOptions world_options() {
  WorldOptions options;
  options.deadline = {10.0};
  return options;
}

/// Finds once, before there are ranks, what all of them would complain about. With the name of the run's folder, which
/// they could not agree on later.
Options checked(Options options, const Plan& plan) {
  const NamedModel named = name_model(options);
  const TrainData data = open_train_data(options.settings, named.config);
  const TrainModel model =
      open_train_model(options.settings, named, data.vocabulary, !options.resume.empty());
  if (!options.resume.empty()) {
    (void)open_checkpoint(options);
  } else if (options.run_folder.empty()) {
    options.run_folder = free_run_folder(name_of(model.config));
  }
  check_plan(plan, trainer_options(options.settings, model.config, plan));
  return options;
}

/// On processes forked from this one.
void run_forked(const Options& given, const Plan& plan) {
  constexpr int kMostProcesses = 256;
  require(plan.mesh.devices() <= kMostProcesses,
          fmt::format("the mesh {} has {} devices; at most {} processes are started on one machine",
                      to_text(plan.mesh), plan.mesh.devices(), kMostProcesses));
  const Options options = checked(given, plan);
  SharedNumber interrupted;
  SharedNumber refused;  // 1: what a rank says is an error of the caller's
  const InterruptGuard guard(interrupted);
  const auto body = [&](World& world) {
    try {
      run_on(options, plan, &world, interrupted);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Input) {
        refused.set(1);
      }
      throw;
    }
  };
  if (launch(plan.mesh.devices(), body, world_options()) != 0) {
    throw Error(refused.get() != 0 ? ErrorKind::Input : ErrorKind::Peer,
                "a rank failed; its message stands above");
  }
}

/// As one of the ranks that another program has started.
void run_joined(const Options& options, const Plan& plan) {
  SharedNumber interrupted;
  World world = join(variable, world_options());
  std::optional<Error> problem;
  try {
    (void)checked(options, plan);
  } catch (const Error& error) {
    problem = error;
  }
  const int teller = first_rank_with(world, problem.has_value());
  if (teller == world.size()) {
    run_on(options, plan, &world, interrupted);
  } else if (teller == world.rank() && problem) {
    throw Error(*problem);
  }
}

/// The plan, checked against the options and what has started this process.
Plan plan_of(const Options& options, const comm::LaunchInfo& launch) {
  verify(options);
  Plan plan = options.plan.plan();
  if (launch.size > 1 && options.plan.mesh.empty() && options.plan.file.empty()) {
    plan.mesh = Mesh({{"data", launch.size}});
  }
  require(launch.size == 1 || plan.mesh.devices() == launch.size,
          fmt::format("the mesh {} has {} devices, but {} started {} ranks; make them agree",
                      to_text(plan.mesh), plan.mesh.devices(), comm::name(launch.launcher),
                      launch.size));
  require(plan.mesh.devices() == 1 || options.export_folder.empty(),
          "--export is for one device: let this run end, then --resume it with --export alone");
  return plan;
}

void run(const Options& given) {
  const comm::LaunchInfo launch = comm::find_launch(variable);
  Options options;
  Plan plan;
  try {
    options = completed(given);
    plan = plan_of(options, launch);
  } catch (const Error&) {
    if (launch.rank == 0) {
      throw;
    }
    return;  // all ranks have the same options, and rank 0 tells what is wrong with them
  }
  if (launch.size > 1) {
    run_joined(options, plan);
  } else if (plan.mesh.devices() > 1) {
    run_forked(options, plan);
  } else {
    SharedNumber interrupted;
    run_on(options, plan, nullptr, interrupted);
  }
}

/// What a run is made from.
void add_settings(CLI::App* command, TrainSettings& s) {
  command
      ->add_option("--model", s.model,
                   fmt::format("one of {}; or a config.json of Hugging Face's (gpt2, llama, "
                               "mixtral), or its folder, with the weights that are in it",
                               fmt::join(preset_any_model_names(), ", ")))
      ->capture_default_str();
  command
      ->add_option("--weights", s.weights,
                   "a safetensors file, an index of several, or a folder, to begin with "
                   "(default: those in the folder that --model names; else random ones)")
      ->check(named);
  command
      ->add_option("--data", s.data,
                   "a text file, or tokens of two bytes (*.bin); default: a generated language "
                   "whose entropy is known")
      ->check(named);
  command->add_option("--tokenizer", s.tokenizer, "a tokenizer.json (GPT-2's BPE) for --data")
      ->check(named);
  command->add_option("--steps", s.steps, "steps of the whole run")->capture_default_str();
  command->add_option("--batch", s.batch, "sequences, or examples, in a step")
      ->capture_default_str();
  command->add_option("--length", s.length, "tokens in a sequence")->capture_default_str();
  command->add_option(
      "--rate", s.rate,
      "learning rate: cosine:PEAK,warmup=W,steps=N,least=L, or linear, wsd, constant "
      "(default: cosine over the steps)");
  command->add_option("--clip", s.clip, "largest norm of all gradients; 0: any")
      ->capture_default_str();
  command->add_option("--decay", s.decay, "weight decay of matrices")->capture_default_str();
  command->add_option("--dropout", s.dropout, "share that is dropped")->capture_default_str();
  command->add_option("--experts", s.experts,
                      "a mixture of experts: NUMBER,per-token=K,every=BLOCKS,"
                      "gate=softmax-first|top-k-first,capacity=F,balance=W,shared=S,noise "
                      "(default: as the model has it)");
  command->add_option("--validation", s.validation, "share of the data kept for validation")
      ->capture_default_str();
  command->add_option("--dtype", s.dtype, "f32, bf16, f16 or f64")->capture_default_str();
  command
      ->add_option("--master", s.master,
                   "of bf16 and f16: the optimizer moves a copy of the parameters in f32, or none")
      ->capture_default_str();
  command
      ->add_option("--loss-scale", s.loss_scale,
                   "of f16: what gradients are multiplied by at first, so that small ones do not "
                   "vanish; halved when they overflow, doubled after 2000 steps")
      ->capture_default_str();
  command
      ->add_option("--recompute", s.recompute,
                   "activations that the backward computes again: none, selective, full, or what "
                   "it takes to keep at most a SIZE of them")
      ->capture_default_str();
  command->add_option("--seed", s.seed, "of the first weights, the data's order and dropout")
      ->capture_default_str();
}

/// How it is run, and where its files go.
void add_run_options(CLI::App* command, Options& o) {
  command->add_option("--threads", o.threads, "0: all cores")->capture_default_str();
  command->add_option_function<std::string>(
      "--memory-limit",
      [&o](const std::string& text) {
        o.memory_limit = parsed("--memory-limit", text, parse_bytes);
      },
      "refuse to begin if more would be needed (default: what the machine and its control groups "
      "have left)");
  CLI::Option* folder = command
                            ->add_option("--run-folder", o.run_folder,
                                         "where the run's files go (default: runs/MODEL-NUMBER)")
                            ->check(named);
  command
      ->add_option("--export", o.export_folder,
                   "write config.json and model.safetensors into this folder at the end")
      ->check(named);
  command
      ->add_option(
          "--resume", o.resume,
          "go on with the run in this folder; --steps, --rate, --clip, --decay, --dropout, "
          "--batch and --recompute may differ")
      ->excludes(folder)
      ->check(named);
  command->add_option("--save-every", o.save_every,
                      "save a checkpoint every so many steps (it is saved at the end in any case)");
  command->add_option("--validate-every", o.validate_every,
                      "measure the validation loss every so many steps");
  command->add_flag("--tensorboard", o.tensorboard,
                    "write the scalars of each step for TensorBoard, into the run's folder");
  command->add_flag("--json", o.json, "a line of JSON for each step, and one at the end");
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a model, and show where the time went");
  add_settings(command, options->settings);
  add_run_options(command, *options);
  add_plan_options(command, options->plan);
  command->footer(kExamples);
  command->callback([options, command] {
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() > 0 && is_setting(option->get_single_name())) {
        options->given.push_back(option->get_single_name());
      }
    }
    run(*options);
  });
}

}  // namespace trireme::cli
