#include "train/run/run_notes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "tensor/half.h"
#include "trireme/tensor.h"

namespace trireme::train {
namespace {

std::string effectless(const std::string& option, const std::string& why) {
  return fmt::format("{} has no effect: {}", option, why);
}

class Notes {
 public:
  Notes(const TrainSettings& settings, const Plan& plan, const AnyModelConfig& model)
      : settings_(settings), plan_(plan), model_(model), notes_(plan_notes(plan)) {}

  std::vector<std::string> find(std::optional<int> cores) && {
    find_settings();
    if (cores) {
      find_machine(*cores);
    }
    find_idle_stages();
    find_idle_data_ranks();
    if (const auto* language = std::get_if<ModelConfig>(&model_)) {
      find_idle_ranks("tensor", {"attention head", language->heads}, "the model");
      find_idle_ranks("context", {"token", settings_.length, " in a sequence"}, "--length");
      find_idle_ranks("expert", {"expert", language->experts}, "--experts");
      no_effect(language->balance_groups == 0 && plan_.microbatches == 1, "per=microbatch",
                "the whole batch is one micro-batch");
    } else {
      find_language_settings();
    }
    return std::move(notes_);
  }

 private:
  void no_effect(bool given, const std::string& option, const std::string& why) {
    if (given) {
      notes_.push_back(effectless(option, why));
    }
  }

  void find_machine(int cores) {
    if (settings_.threads > cores) {
      notes_.push_back(fmt::format("--threads {} is slower than --threads {}: this machine has {}",
                                   settings_.threads, cores, plural(cores, "core")));
    }
    no_effect(settings_.gpu_exchange != "auto",
              fmt::format("--gpu-exchange {}", settings_.gpu_exchange), "the run is on the CPU");
  }

  void find_settings() {
    no_effect(settings_.validate_every > 0 && settings_.validation == 0 &&
                  settings_.validation_data.empty(),
              fmt::format("--validate-every {}", settings_.validate_every),
              "--validation 0 sets no data aside");
    if (settings_.validate_every > settings_.steps) {
      notes_.push_back(
          fmt::format("--validate-every {} validates after the last step only: the run has {}",
                      settings_.validate_every, plural(settings_.steps, "step")));
    }
    no_effect(
        settings_.validation != TrainSettings{}.validation && !settings_.validation_data.empty(),
        fmt::format("--validation {}", settings_.validation), "--validation-data names the data");
    no_effect(settings_.save_every == "0" && settings_.keep != TrainSettings{}.keep,
              fmt::format("--keep {}", settings_.keep),
              "--save-every 0 saves one checkpoint, at the end");
    no_effect(settings_.master == "none" && !is_half(parse_dtype(settings_.dtype)), "--master none",
              fmt::format("{} weights have no master copies", settings_.dtype));
  }

  /// Settings of language models, which other models do not have.
  void find_language_settings() {
    no_effect(settings_.vocabulary > 0, fmt::format("--vocabulary {}", settings_.vocabulary),
              fmt::format("{} has no vocabulary", name_of(model_)));
    no_effect(settings_.validation != TrainSettings{}.validation && settings_.validation > 0,
              fmt::format("--validation {}", settings_.validation),
              "validation examples are generated, not taken from the training data");
  }

  void find_idle_stages() {
    const int stages = plan_.mesh.size("pipe");
    if (stages > 1 && plan_.microbatches == 1 && !plan_.table) {
      notes_.push_back(
          fmt::format("with one micro-batch only one of {} pipeline stages computes at a time; use "
                      "--microbatches {} or more",
                      stages, 2 * stages));
    }
  }

  void find_idle_data_ranks() {
    const std::int64_t parts = plan_.microbatches;
    const std::string_view unit =
        std::holds_alternative<ModelConfig>(model_) ? "sequence" : "example";
    find_idle_ranks("data",
                    {unit, (settings_.batch + parts - 1) / parts,
                     parts > 1 ? " in a micro-batch" : " in the batch"},
                    parts > 1 ? "--batch, --microbatches" : "--batch");
  }

  /// The quantity that an axis divides: "3 sequences in the batch".
  struct Divided {
    std::string_view thing;
    std::int64_t count = 0;
    std::string_view where = "";
  };

  void find_idle_ranks(std::string_view axis, const Divided& what, std::string_view source) {
    const int ranks = plan_.mesh.size(axis);
    if (ranks > what.count) {
      notes_.push_back(fmt::format("{} of {} ranks along {} will idle: there {} only {}{} ({})",
                                   ranks - what.count, ranks, axis, what.count == 1 ? "is" : "are",
                                   plural(what.count, what.thing), what.where, source));
    }
  }

  const TrainSettings& settings_;
  const Plan& plan_;
  const AnyModelConfig& model_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> run_notes(const TrainSettings& settings, const Plan& plan,
                                   const AnyModelConfig& model, std::optional<int> cores) {
  return Notes(settings, plan, model).find(cores);
}

}  // namespace trireme::train

namespace trireme {

std::vector<std::string> plan_notes(const Plan& plan) {
  const Plan defaults;
  std::vector<std::string> notes;
  const auto lacks = [&](std::string_view axis) { return plan.mesh.size(axis) == 1; };
  const auto no_effect = [&](bool given, const std::string& option, const std::string& why) {
    if (given) {
      notes.push_back(train::effectless(option, why));
    }
  };
  no_effect(plan.zero > 0 && lacks("data"), fmt::format("--zero {}", plan.zero),
            "it shards along data, which the mesh does not have");
  no_effect(plan.sequence && lacks("tensor"), "--sequence",
            "it shards along tensor, which the mesh does not have");
  no_effect(plan.context != defaults.context && lacks("context"),
            fmt::format("--context {}", to_text(plan.context)), "the mesh has no context axis");
  const auto rows = pipeline_schedules();
  const auto row = std::ranges::find(rows, plan.schedule, &PipelineSchedule::name);
  const bool has_chunks = row != rows.end() && row->has_chunks;
  no_effect(plan.chunks > 1 && !plan.table && (lacks("pipe") || !has_chunks),
            fmt::format("--chunks {}", plan.chunks),
            lacks("pipe") ? "the mesh has no pipe axis"
                          : fmt::format("the schedule {} has one stage per rank", plan.schedule));
  no_effect(plan.schedule != defaults.schedule && !plan.table && lacks("pipe"),
            fmt::format("--schedule {}", plan.schedule), "the mesh has no pipe axis");
  return notes;
}

}  // namespace trireme
