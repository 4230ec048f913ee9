#include "trireme/plan_choice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "train/clock.h"
#include "train/run/memory_check.h"
#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "trireme/error.h"
#include "trireme/step_prediction.h"

namespace trireme {
namespace {

using train::Clock;

bool has_experts(const AnyModelConfig& model) {
  const auto* language = std::get_if<ModelConfig>(&model);
  return language != nullptr && language->experts > 1;
}

/// The step and the validation of the rank that needs the most memory.
Bytes memory_of(const train::CompiledTraining& compiled) {
  Bytes most{};
  for (std::size_t rank = 0; rank < compiled.step.programs().size(); ++rank) {
    most = std::max(most, Bytes{compiled.step.programs()[rank].arena.count +
                                compiled.evaluation.programs()[rank].arena.count});
  }
  return most;
}

std::size_t instructions_of(const train::CompiledTraining& compiled) {
  std::size_t count = 0;
  for (const Program& program : compiled.step.programs()) {
    count += program.instructions.size();
  }
  return count;
}

/// Of the rank with the most.
std::size_t exchanges_of(const train::CompiledTraining& compiled) {
  std::size_t most = 0;
  for (const Program& program : compiled.step.programs()) {
    const auto count = std::ranges::count_if(
        program.instructions,
        [](const Instruction& instruction) { return instruction.op->communicates; });
    most = std::max(most, static_cast<std::size_t>(count));
  }
  return most;
}

class Chooser {
 public:
  Chooser(const RunOptions& run, const PlanChoiceOptions& options) : run_(run), options_(options) {
    const NamedModel named = train::find_model(run);
    const TrainData data = train::open_data(run, named.config);
    model_ =
        train::open_run_model(run.settings, named, data.vocabulary, !run.resume.empty()).config;
  }

  PlanChoice choose() {
    for (const int ranks : options_.ranks) {
      for (const Plan& plan : candidate_plans(ranks, has_experts(model_), options_)) {
        consider(plan);
      }
    }
    std::ranges::stable_sort(choice_.candidates, {}, [](const PlanCandidate& candidate) {
      return std::pair(!candidate.fits, candidate.slowest.count);
    });
    prefer_few_exchanges();
    require_one();
    choice_.time = elapsed();
    return std::move(choice_);
  }

 private:
  [[nodiscard]] Seconds elapsed() const { return train::since(start_); }

  void consider(const Plan& plan) {
    if (!choice_.candidates.empty() && instructions_ >= options_.budget) {
      ++choice_.skipped;
      return;
    }
    try {
      const train::CompiledTraining compiled =
          train::compile_training(train::trainer_options(run_.settings, model_, plan));
      const simulate::SimulationReport report =
          predict::predict_step(compiled.step.rank_programs(), plan.mesh, run_.host.value(),
                                {.threads = options_.threads});
      instructions_ += instructions_of(compiled);
      const Bytes memory = memory_of(compiled);
      choice_.candidates.push_back({.plan = plan,
                                    .step = report.step,
                                    .slowest = report.slowest,
                                    .exchanges = exchanges_of(compiled),
                                    .memory = memory,
                                    .fits = memory <= limit_of(plan)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Usage) {
        throw;
      }
      reason_ = reason_.empty() ? error.what() : reason_;
      ++choice_.unsuitable;
    }
  }

  /// Where ranks share cores, with one another or with the threads that move their data.
  void prefer_few_exchanges() {
    std::vector<PlanCandidate>& all = choice_.candidates;
    if (all.empty() || !all.front().fits || !shares_cores(all.front().plan)) {
      return;
    }
    const double limit = all.front().slowest.count * (1 + kClosePlans);
    const auto close = std::ranges::find_if(
        all, [&](const PlanCandidate& one) { return !one.fits || one.slowest.count > limit; });
    const auto few = std::min_element(
        all.begin(), close, [](const auto& a, const auto& b) { return a.exchanges < b.exchanges; });
    std::rotate(all.begin(), few, few + 1);
  }

  [[nodiscard]] bool shares_cores(const Plan& plan) const {
    const int ranks = plan.mesh.devices();
    return ranks > 1 && ranks * std::max(1, options_.threads) >= run_.host.value().cores;
  }

  /// An explicit limit applies to each rank; the machine's available memory to all together.
  [[nodiscard]] Bytes limit_of(const Plan& plan) const {
    const Bytes available = train::memory_for_training(run_.memory_limit).bytes;
    return run_.memory_limit ? available : Bytes{available.count / plan.mesh.devices()};
  }

  void require_one() const {
    if (choice_.candidates.empty()) {
      throw Error(
          ErrorKind::Usage,
          fmt::format("--mesh auto: no plan suits this model and batch; the first: {}", reason_));
    }
    if (!choice_.best().fits) {
      const PlanCandidate& least =
          *std::ranges::min_element(choice_.candidates, {}, &PlanCandidate::memory);
      throw Error(
          ErrorKind::System,
          fmt::format("--mesh auto: no plan fits into memory; {} needs the least, {} on a rank "
                      "with {} to use; try --recompute full, a smaller --batch or more ranks",
                      summary_of(least.plan), to_text(least.memory),
                      to_text(limit_of(least.plan))));
    }
  }

  const RunOptions& run_;
  const PlanChoiceOptions& options_;
  AnyModelConfig model_;
  Clock::time_point start_ = Clock::now();
  std::size_t instructions_ = 0;  ///< of all candidates so far
  std::string reason_;            ///< why the first unsuitable candidate is
  PlanChoice choice_;
};

}  // namespace

PlanChoice choose_plan(const RunOptions& run, const PlanChoiceOptions& options) {
  if (!run.host || !run.host->compute) {
    throw Error(ErrorKind::Usage, "--mesh auto needs the costs of this host; run 'trireme probe'");
  }
  require_valid(run);
  return Chooser(run, options).choose();
}

std::string summary_of(const Plan& plan) {
  std::string text = plan.mesh.axes().empty() ? "one rank" : to_text(plan.mesh);
  text += plan.zero > 0 ? fmt::format(", ZeRO {}", plan.zero) : "";
  text += plan.microbatches > 1 ? fmt::format(", {} micro-batches", plan.microbatches) : "";
  return text;
}

}  // namespace trireme
