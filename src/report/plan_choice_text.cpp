#include "report/plan_choice_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::report {
namespace {

/// "75.1 ms", or "75.1 ms, up to 80.2 ms" if that depends on how ranks share cores.
std::string time_text(const PlanCandidate& plan) {
  constexpr double kVisible = 1.01;
  return to_text(plan.step) + (plan.slowest.count > kVisible * plan.step.count
                                   ? ", up to " + to_text(plan.slowest)
                                   : "");
}

/// "pipe=2, 75.1 ms (+12.1 %)"
std::string runner_up_text(const PlanCandidate& best, const PlanCandidate& next) {
  const std::string plan = summary_of(next.plan);
  return next.fits ? fmt::format("{}, {} ({:+.1f} %)", plan, time_text(next),
                                 100 * (next.step.count / best.step.count - 1))
                   : fmt::format("{}, which does not fit: {}", plan, to_text(next.memory));
}

}  // namespace

std::string plan_choice_text(const PlanChoice& choice) {
  const PlanCandidate& best = choice.best();
  std::string text = fmt::format("{}, predicted {} a step", summary_of(best.plan), time_text(best));
  if (choice.candidates.size() > 1) {
    text += "; next " + runner_up_text(best, choice.candidates[1]);
  }
  const bool is_fastest = std::ranges::none_of(choice.candidates, [&](const PlanCandidate& one) {
    return one.fits && one.slowest < best.slowest;
  });
  text +=
      fmt::format("\n{} of {} plans simulated in {}",
                  is_fastest ? "fastest" : "fewest communication ops within 10 % of the fastest,",
                  choice.candidates.size(), to_text(choice.time));
  if (choice.unsuitable > 0) {
    text += fmt::format("; {} unsuitable for the model or the batch", choice.unsuitable);
  }
  return text + (choice.skipped > 0 ? fmt::format("; {} not tried", choice.skipped) : "");
}

}  // namespace trireme::report
