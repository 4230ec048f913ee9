#include "train/sync/make_strategy.h"

#include <vector>

#include "train/sync/local_model.h"
#include "train/sync/mixer.h"
#include "train/sync/server_steps.h"
#include "train/sync/tree_steps.h"

namespace trireme::train {
namespace {

Moved distance_between(std::span<const float> before, std::span<const float> after) {
  Moved moved;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double difference = static_cast<double>(after[i]) - before[i];
    moved.distance += difference * difference;
    moved.length += static_cast<double>(after[i]) * after[i];
  }
  return moved;
}

/// Workers take independent steps and mix their models.
class MixedSteps : public SyncStrategy {
 public:
  MixedSteps(const SyncSpec& spec, const WorkerPlace& place)
      : spec_(spec),
        trainer_(place.trainer),
        workers_(place.workers),
        board_ranks_(place.all.split(0, place.all.rank())),
        model_(place.trainer),
        mixer_(make_mixer(spec, place.workers)),
        before_(model_.size()),
        after_(model_.size()) {
    model_.read(after_);
    mixer_->reset(after_);
  }

  StepResult run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                      Trace* trace) override {
    return trainer_.run_step(inputs, targets, trace);
  }

  Moved mix(std::int64_t step) override {
    model_.read(before_);
    after_ = before_;
    mixer_->mix(step, after_);
    model_.write(after_);
    return distance_between(before_, after_);
  }

  std::unique_ptr<StepBoard> open_board(const Stretch& stretch) override {
    return needs_threads(spec_)
               ? make_pool_board(board_ranks_, stretch)
               : make_step_board(board_ranks_, stretch,
                                 {.worker = workers_.rank(), .max_lead = kMaxLead});
  }

  void with_average(const std::function<void()>& body) override {
    model_.read(before_);
    after_ = before_;
    mixer_->average(after_);
    model_.write(after_);
    body();
    model_.write(before_);
  }

  void settle() override {
    model_.read(after_);
    mixer_->average(after_);
    model_.write(after_);
    model_.average_state(workers_);
    mixer_->reset(after_);
  }

 private:
  SyncSpec spec_;
  Trainer& trainer_;
  Group& workers_;
  Group board_ranks_;
  LocalModel model_;
  std::unique_ptr<Mixer> mixer_;
  std::vector<float> before_;
  std::vector<float> after_;
};

}  // namespace

std::unique_ptr<SyncStrategy> make_sync_strategy(const SyncSpec& spec, const WorkerPlace& place) {
  if (spec.kind == SyncSpec::Kind::Tree) {
    return make_tree_steps(place);
  }
  if (uses_server(spec)) {
    return make_server_steps(spec, place);
  }
  return std::make_unique<MixedSteps>(spec, place);
}

}  // namespace trireme::train
