// How a run continues when a worker dies. The model and the optimizer's state are on parameter servers, so a dead worker
// takes nothing with it but its share of the steps to come.
//
// An exchange between workers that the death interrupted may be complete on some of them and not on others. So the
// survivors go back together to the last step that all of them have recorded, and begin the stretch after it again. Steps
// that a worker has done are not repeated: it hands in their results once more.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/run/training_run_impl.h"

namespace trireme {
namespace {

/// Those of `before` that are not in `after`; both ascend.
std::vector<int> missing_from(const std::vector<Rank>& after, const std::vector<Rank>& before) {
  std::vector<int> missing;
  std::ranges::set_difference(before, after, std::back_inserter(missing));
  return missing;
}

std::string death_text(const std::vector<int>& dead, Rank live, int workers, std::int64_t step) {
  return fmt::format("worker {} died: the run continues after step {} with {} of {} workers",
                     fmt::join(dead, ", "), step, live, workers);
}

}  // namespace

bool TrainingRun::Impl::survives(const CommError& error) const {
  using enum CommFault;
  const std::array deaths{Died, Stopped, Left, Dead};
  const bool is_death = std::ranges::find(deaths, error.fault()) != deaths.end();
  const bool is_self = error.culprits() == std::vector<Rank>{ranks_.rank()};
  const bool knows_folder = !folder_.empty();
  return sync_ && uses_server(parse_sync(settings_.sync)) && is_death && !is_self && knows_folder;
}

void TrainingRun::Impl::continue_without_dead() {
  const std::vector<Rank> before = ranks_.all().world_ranks();
  ranks_.continue_without_dead();
  const std::vector<int> dead = missing_from(ranks_.all().world_ranks(), before);
  std::array<std::int32_t, 1> latest{-static_cast<std::int32_t>(recorded_)};
  ranks_.take_maximum(latest);
  const std::int64_t step = -latest[0];
  sync_->continue_without(dead, last_result_.rate);
  trainer_.set_step(step);
  position_ =
      data_.training->advance(first_position_, (step - facts_.first_step) * settings_.batch);
  if (ranks_.leads()) {
    take_lead();
    notify(options_.observer.warning,
           death_text(dead, ranks_.all().size(), ranks_.workers(), step));
  }
}

void TrainingRun::Impl::take_lead() {
  if (record_) {
    return;  // it has the lead
  }
  own_folder();
  const std::int64_t before = recent_.empty() ? recorded_ : recent_.front().step - 1;
  record_.emplace(folder_, before, settings_.tensorboard);
  for (const StepReport& report : recent_) {
    record_->add(facts_, report);
  }
  validations_.load(folder_ + "/metrics.jsonl");
}

}  // namespace trireme
