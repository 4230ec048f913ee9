// Hogwild!: threads update one vector without locks.
//
// A worker computes its step on a snapshot of the vector, adds the difference to it element by element, and continues
// from the resulting vector. With n workers it adds an n-th of the difference: the n updates of a step then sum up to
// their average, and a learning rate means the same as under the other strategies. Every access is a relaxed atomic
// operation: no update is lost, but a snapshot may contain some elements from before and some from after another
// worker's update.
#include <atomic>
#include <memory>
#include <vector>

#include "train/sync/mixer.h"
#include "train/sync/shared_object.h"

namespace trireme::train {
namespace {

float load(float& element) {
  return std::atomic_ref<float>(element).load(std::memory_order_relaxed);
}

/// Returns the sum.
float add(float& element, float difference) {
  return std::atomic_ref<float>(element).fetch_add(difference, std::memory_order_relaxed) +
         difference;
}

class HogwildMixer : public Mixer {
 public:
  explicit HogwildMixer(Group& workers)
      : workers_(workers),
        shared_(share_object(workers, [] { return std::make_shared<std::vector<float>>(); })) {}

  void reset(std::span<const float> model) override {
    workers_.barrier();
    if (workers_.rank() == 0) {
      shared_->assign(model.begin(), model.end());
    }
    workers_.barrier();
    snapshot_.assign(model.begin(), model.end());
  }

  void mix(std::int64_t /*step*/, std::span<float> model) override {
    std::vector<float>& shared = *shared_;
    const auto workers = static_cast<float>(workers_.size());
    for (std::size_t i = 0; i < model.size(); ++i) {
      const float difference = (model[i] - snapshot_[i]) / workers;
      model[i] = difference == 0 ? load(shared[i]) : add(shared[i], difference);
      snapshot_[i] = model[i];
    }
  }

  void average(std::span<float> model) override {
    workers_.barrier();
    for (std::size_t i = 0; i < model.size(); ++i) {
      model[i] = load((*shared_)[i]);
    }
    workers_.barrier();
  }

 private:
  Group workers_;
  std::shared_ptr<std::vector<float>> shared_;
  std::vector<float> snapshot_;
};

}  // namespace

std::unique_ptr<Mixer> make_hogwild_mixer(Group& workers) {
  return std::make_unique<HogwildMixer>(workers);
}

}  // namespace trireme::train
