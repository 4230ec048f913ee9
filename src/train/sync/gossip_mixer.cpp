// Stochastic gradient push: push-sum over a directed graph that changes from step to step.
//
// Worker i keeps a vector x_i and a weight w_i, at first its model and 1, and computes gradients at z_i = x_i / w_i. A
// step adds the optimizer's update to x_i, then worker i sends half of (x_i, w_i) to the worker 2^r ahead, where r is
// the step modulo ceil(log2 n), keeps the other half, and adds what it receives. The sums of x and of w over all workers
// are preserved, so without updates every z_i converges to the mean of the models; if n is a power of two, it equals the
// mean after log2 n steps. Bytes per step and worker: one model each way, to and from a single peer.
#include <cmath>
#include <vector>

#include "train/sync/mixer.h"

namespace trireme::train {
namespace {

constexpr std::int32_t kPushTag = 0x5057;

class GossipMixer : public Mixer {
 public:
  explicit GossipMixer(Group& workers)
      : workers_(workers.split(0, workers.rank())), rounds_(rounds_of(workers.size(), 2)) {}

  void reset(std::span<const float> model) override {
    x_.assign(model.begin(), model.end());
    z_ = x_;
    weight_ = 1;
    sent_.resize(model.size() + 1);
    received_.resize(model.size() + 1);
  }

  void mix(std::int64_t step, std::span<float> model) override {
    for (std::size_t i = 0; i < model.size(); ++i) {
      x_[i] += model[i] - z_[i];
    }
    push(1 << static_cast<int>((step - 1) % rounds_));
    for (std::size_t i = 0; i < model.size(); ++i) {
      z_[i] = x_[i] / weight_;
      model[i] = z_[i];
    }
  }

  void average(std::span<float> model) override {
    for (std::size_t i = 0; i < model.size(); ++i) {
      sent_[i] = x_[i] + (model[i] - z_[i]);
    }
    sent_.back() = weight_;
    workers_.run(allreduce<float>(sent_));
    for (std::size_t i = 0; i < model.size(); ++i) {
      model[i] = sent_[i] / sent_.back();
    }
  }

 private:
  /// Sends half of x and w `distance` ahead, and adds the half received from the same distance behind.
  void push(Rank distance) {
    const Rank count = workers_.size();
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] /= 2;
      sent_[i] = x_[i];
    }
    weight_ /= 2;
    sent_.back() = weight_;
    Pending incoming = workers_.start_receive<float>(
        received_, (workers_.rank() - distance + count) % count, kPushTag);
    Pending outgoing = workers_.start_send<float>(std::span<const float>(sent_),
                                                  (workers_.rank() + distance) % count, kPushTag);
    incoming.wait();
    outgoing.wait();
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] += received_[i];
    }
    weight_ += received_.back();
  }

  Group workers_;
  int rounds_;
  std::vector<float> x_;
  std::vector<float> z_;  ///< the model at which this worker computed its last gradients
  float weight_ = 1;
  std::vector<float> sent_;      ///< a vector like x, then its weight
  std::vector<float> received_;  ///< likewise
};

}  // namespace

std::unique_ptr<Mixer> make_gossip_mixer(Group& workers) {
  return std::make_unique<GossipMixer>(workers);
}

}  // namespace trireme::train
