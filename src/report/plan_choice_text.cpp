#include "report/plan_choice_text.h"

#include <fmt/format.h>

namespace trireme::report {
namespace {

/// "pipe=2, 75.1 ms (+12.1 %)"
std::string runner_up_text(const PlanCandidate& best, const PlanCandidate& next) {
  const std::string plan = summary_of(next.plan);
  return next.fits ? fmt::format("{}, {} (+{:.1f} %)", plan, to_text(next.step),
                                 100 * (next.step.count / best.step.count - 1))
                   : fmt::format("{}, which does not fit: {}", plan, to_text(next.memory));
}

}  // namespace

std::string plan_choice_text(const PlanChoice& choice) {
  const PlanCandidate& best = choice.best();
  std::string text =
      fmt::format("{}, predicted {} a step", summary_of(best.plan), to_text(best.step));
  if (choice.candidates.size() > 1) {
    text += "; next " + runner_up_text(best, choice.candidates[1]);
  }
  text += fmt::format("\nfastest of {} plans simulated in {}", choice.candidates.size(),
                      to_text(choice.time));
  if (choice.unsuitable > 0) {
    text += fmt::format("; {} unsuitable for the model or the batch", choice.unsuitable);
  }
  return text + (choice.skipped > 0 ? fmt::format("; {} not tried", choice.skipped) : "");
}

}  // namespace trireme::report
