#include "train/sync/tree_steps.h"

#include <vector>

namespace trireme::train {
namespace {

/// Everyone waits for worker 0 in each step, so a worker can hardly be ahead.
constexpr int kTreeLead = 1;

CallOptions along_tree() {
  CallOptions options;
  options.method = Method::scheduled(Algorithm::BinaryTree);
  return options;
}

class TreeSteps : public SyncStrategy {
 public:
  explicit TreeSteps(const WorkerPlace& place)
      : trainer_(place.trainer),
        workers_(place.workers),
        board_ranks_(place.all.split(0, place.all.rank())),
        gradients_(trainer_.gradient_count() + 1),
        model_(trainer_.gradient_count() + kOutcome) {}

  StepResult run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                      Trace* trace) override {
    const std::span<float> gradients = std::span(gradients_).first(gradients_.size() - 1);
    const auto loss =
        static_cast<float>(trainer_.compute_gradients(inputs, targets, gradients, trace));
    gradients_.back() = loss;
    reduce_up(workers_, gradients_);
    StepResult result;
    if (workers_.rank() == 0) {
      result = update();
    }
    broadcast_down(workers_, model_);
    if (workers_.rank() != 0) {
      result = adopt();
    }
    result.loss = loss;  // this worker's own, as with the other strategies
    return result;
  }

  Moved mix(std::int64_t /*step*/) override { return {}; }

  std::unique_ptr<StepBoard> open_board(const Stretch& stretch) override {
    return make_step_board(board_ranks_, stretch,
                           {.worker = workers_.rank(), .max_lead = kTreeLead});
  }

  void with_average(const std::function<void()>& body) override { body(); }
  void settle() override {}

 private:
  /// What worker 0 sends with the model: whether the step was finite, and the gradient norm.
  static constexpr std::size_t kOutcome = 2;

  [[nodiscard]] std::span<float> outcome() { return std::span(model_).last(kOutcome); }
  [[nodiscard]] std::span<float> parameters() {
    return std::span(model_).first(model_.size() - kOutcome);
  }

  StepResult update() {
    const auto count = static_cast<float>(workers_.size());
    for (float& element : gradients_) {
      element /= count;
    }
    const StepResult result = trainer_.apply_gradients(
        std::span<const float>(gradients_).first(gradients_.size() - 1), gradients_.back());
    trainer_.read_trained(parameters());
    outcome()[0] = result.finite ? 1 : 0;
    outcome()[1] = static_cast<float>(result.gradient_norm);
    return result;
  }

  StepResult adopt() {
    StepResult result;
    result.step = trainer_.step() + 1;
    result.finite = outcome()[0] == 1;
    result.gradient_norm = outcome()[1];
    result.rate = trainer_.rate();
    if (result.finite) {
      trainer_.adopt_step(parameters());
    }
    return result;
  }

  Trainer& trainer_;
  Group& workers_;
  Group board_ranks_;
  std::vector<float> gradients_;  ///< and the loss
  std::vector<float> model_;      ///< parameters, and the step's outcome
};

}  // namespace

void reduce_up(Group& workers, std::span<float> gradients) {
  workers.run(reduce<float>(std::span<const float>(gradients), gradients, 0, along_tree()));
}

void broadcast_down(Group& workers, std::span<float> model) {
  workers.run(broadcast<float>(model, 0, along_tree()));
}

std::unique_ptr<SyncStrategy> make_tree_steps(const WorkerPlace& place) {
  return std::make_unique<TreeSteps>(place);
}

}  // namespace trireme::train
