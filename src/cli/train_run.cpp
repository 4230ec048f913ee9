#include "cli/train_run.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/cores.h"
#include "cli/files.h"
#include "cli/train_data.h"
#include "cli/train_display.h"
#include "cli/train_failure.h"
#include "cli/train_folder.h"
#include "cli/train_memory.h"
#include "cli/train_model.h"
#include "cli/train_setup.h"
#include "cli/train_trace.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/step/trainer.h"
#include "trireme/communicator.h"
#include "trireme/compiled_plan.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/trace.h"

namespace trireme::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Steps over which the last word on the loss is taken.
constexpr std::size_t kLastSteps = 20;
constexpr std::int64_t kValidationBatches = 8;
/// The step that is recorded kernel by kernel: the first ones touch memory for the first time.
constexpr std::int64_t kTracedStep = 3;

/// What a user types to run this program: ./run says so.
std::string called_as() {
  // One thread: between steps.
  const char* name = std::getenv("TRIREME_CALLED_AS");  // NOLINT(concurrency-mt-unsafe)
  return name == nullptr || *name == '\0' ? "trireme" : name;
}

/// Ends a rank where another reports what is wrong.
struct ReportedElsewhere {};

/// The ranks of the run; without a communicator, one device.
struct Ranks {
  Plan plan{};
  Communicator* communicator = nullptr;  ///< lives as long as the run

  [[nodiscard]] int rank() const {
    return communicator == nullptr ? 0 : communicator->world().rank();
  }
  [[nodiscard]] int count() const { return plan.mesh.devices(); }
};

/// On one device, or as one of several ranks, which all do the same; the first has the files and the terminal.
class Run {
 public:
  /// Ends early, and well, once `interrupted` is not 0.
  Run(const TrainOptions& options, const std::shared_ptr<const train::CompiledTraining>& compiled,
      TrainDisplay& display, const Ranks& ranks, SharedNumber& interrupted)
      : ranks_(ranks),
        interrupted_(interrupted),
        options_(options),
        settings_(options.settings),
        display_(display),
        named_(name_model(options)),
        data_(open_train_data(settings_, named_.config)),
        model_(open_train_model(settings_, named_, data_.vocabulary, !options.resume.empty())),
        device_(make_cpu_device(cpu_options())),
        compiled_(compiled != nullptr ? compiled : compile()),
        trainer_(options_that_fit(), compiled_, *device_, ranks_.communicator),
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
    settings_.recompute = to_text(ranks_.plan.recompute);
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
      throw ReportedElsewhere{};
    }
  }

  /// Of each machine, how many ranks it has; first of all, of this one.
  [[nodiscard]] std::vector<int> ranks_by_host() const {
    if (ranks_.communicator == nullptr) {
      return {1};
    }
    std::vector<int> counts;
    for (const std::vector<Rank>& host : ranks_.communicator->world().hosts()) {
      const bool here = std::ranges::find(host, ranks_.rank()) != host.end();
      counts.insert(here ? counts.begin() : counts.end(), static_cast<int>(host.size()));
    }
    return counts;
  }

  /// Ranks of one machine share its cores.
  [[nodiscard]] CpuOptions cpu_options() const {
    CpuOptions options;
    options.threads = options_.threads;
    if (ranks_.count() > 1) {
      const int here = ranks_by_host().front();
      options.threads = options.threads > 0 ? options.threads : std::max(1, usable_cores() / here);
      options.pinned = false;
    }
    return options;
  }

  [[nodiscard]] std::shared_ptr<const train::CompiledTraining> compile() const {
    return std::make_shared<const train::CompiledTraining>(train::compile_training(
        trainer_options(settings_, model_.config, ranks_.plan), ranks_.rank()));
  }

  [[nodiscard]] train::TrainerOptions options_that_fit() const {
    train::TrainerOptions options = trainer_options(settings_, model_.config, ranks_.plan);
    const train::MemoryNeed need = train::plan_memory(*compiled_, *device_, ranks_.rank());
    if (ranks_.communicator == nullptr) {
      require_memory(options, need, memory_for_training(options_.memory_limit), *device_);
    } else if (!has_memory(options, need, options_.memory_limit, *device_,
                           ranks_.communicator->world())) {
      throw ReportedElsewhere{};
    }
    return options;
  }

  void open_folder() {
    if (!options_.resume.empty()) {
      resume();
    }
    if (!leads()) {
      return;
    }
    make_run_folder(folder_);
    if (ranks_.count() > 1) {
      write_file(folder_ + "/plan.json", to_text(ranks_.plan));
    }
    write_file(folder_ + "/settings.json", to_text(settings_));
    if (!description_.empty()) {
      write_file(folder_ + "/config.json", description_);
    }
    record_.emplace(folder_, options_);
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
      facts_.bytes_along_data = train::compressed_bytes(
          *compiled_, trainer_options(settings_, model_.config, ranks_.plan));
    }
  }

  /// How many ranks have cores of their own to compute on at the same time, if all machines are like this one.
  [[nodiscard]] double ranks_that_run() const {
    if (ranks_.count() == 1) {
      return 1;
    }
    const double cores = usable_cores();
    const double threads = std::max(1, cpu_options().threads);
    double running = 0;
    for (const int ranks : ranks_by_host()) {
      running += std::min<double>(ranks, cores / threads);
    }
    return running;
  }

  /// "4 ranks, data=2,tensor=2, ZeRO 1"; "" on one device.
  [[nodiscard]] std::string ranks_text() const {
    const Plan& plan = ranks_.plan;
    if (ranks_.count() == 1) {
      return {};
    }
    std::string text = fmt::format("{} ranks: {}", ranks_.count(), to_text(plan.mesh));
    text += plan.zero > 0 ? fmt::format(", ZeRO {}", plan.zero) : "";
    text += plan.recompute.any() ? ", recompute " + to_text(plan.recompute) : "";
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

  void write_trace(Trace trace, std::int64_t step) {
    if (ranks_.communicator != nullptr) {
      trace = gather_traces(ranks_.communicator->world(), std::move(trace));
    }
    if (leads()) {
      trace.title = fmt::format("{}, step {}", name_of(model_.config), step);
      write_file(folder_ + "/trace.json", to_chrome_json(trace));
    }
  }

  void one_step() {
    data_.training->fill(position_, {inputs_, targets_});
    const bool traced = trainer_.step() - facts_.first_step + 1 == kTracedStep;
    Trace trace;
    const Clock::time_point start = Clock::now();
    const train::StepResult result = take_step(traced ? &trace : nullptr);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (traced) {
      write_trace(std::move(trace), result.step);
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
    record_->add(facts_, moment);
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
    if (record_) {
      record_->flush();
    }
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
    end.traced = std::filesystem::exists(folder_ + "/trace.json");
    end.interrupted = trainer_.step() < settings_.steps;
    end.overflows = overflows_;
    end.compilations = compilation_count();
    if (leads()) {
      display_.end(facts_, end);
    }
  }

  Ranks ranks_;
  SharedNumber& interrupted_;
  TrainOptions options_;
  TrainSettings settings_;
  TrainDisplay& display_;
  NamedModel named_;
  TrainData data_;
  TrainModel model_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<const train::CompiledTraining> compiled_;
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
  std::optional<StepRecord> record_;  ///< of the first rank
};

}  // namespace

int first_rank_with(World& world, bool here) {
  std::int32_t first = here ? world.rank() : world.size();
  CallOptions options;
  options.reduction = Reduction::Min;
  world.all().run(allreduce<std::int32_t>(std::span(&first, 1), options));
  return first;
}

void run_rank(const TrainOptions& options, const Plan& plan,
              const std::shared_ptr<const train::CompiledTraining>& compiled, World* world,
              SharedNumber& interrupted) {
  const std::unique_ptr<TrainDisplay> display = make_train_display(options.json);
  std::optional<Communicator> communicator;
  Ranks ranks;
  ranks.plan = plan;
  if (world != nullptr) {
    communicator.emplace(*world, plan.mesh);
    ranks.communicator = &*communicator;
  }
  try {
    Run(options, compiled, *display, ranks, interrupted).run();
  } catch (const ReportedElsewhere&) {
    return;
  }
}

}  // namespace trireme::cli
