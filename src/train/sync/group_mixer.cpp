// Grouped all-reduce: in every step, each group of S workers averages its models; the groups change from step to step.
//
// Write a worker's number in base S. In round r, workers that differ only in digit r form a group. So after R rounds,
// where S^R is the number of workers, everything has reached everybody: with 16 workers in groups of 4, two steps give
// the average over all. A group waits for its own members only.
#include <algorithm>
#include <optional>
#include <vector>

#include "train/sync/mixer.h"

namespace trireme::train {
namespace {

class GroupMixer : public Mixer {
 public:
  GroupMixer(const SyncSpec& spec, Group& workers)
      : workers_(workers), global_every_(spec.global_every) {
    for (int round = 0; round < rounds_of(workers.size(), spec.group); ++round) {
      const std::vector<Rank> members =
          group_in_round(workers.rank(), workers.size(), spec.group, round);
      groups_.push_back(members.size() > 1 ? std::optional(workers.subset(members)) : std::nullopt);
    }
  }

  void reset(std::span<const float> /*model*/) override {}
  void mix(std::int64_t step, std::span<float> model) override {
    if (global_every_ > 0 && step % global_every_ == 0) {
      average(model);
      return;
    }
    const std::int64_t round = (step - 1) % std::ssize(groups_);
    if (groups_[round]) {
      average_over(*groups_[round], model);
    }
  }
  void average(std::span<float> model) override { average_over(workers_, model); }

 private:
  Group workers_;
  int global_every_;
  std::vector<std::optional<Group>> groups_;  ///< by round; none: this worker is alone
};

}  // namespace

int rounds_of(Rank workers, Rank size) {
  int rounds = 0;
  for (std::int64_t reached = 1; reached < workers; reached *= size) {
    ++rounds;
  }
  return std::max(rounds, 1);
}

std::vector<Rank> group_in_round(Rank worker, Rank workers, Rank size, int round) {
  std::int64_t distance = 1;
  for (int r = 0; r < round; ++r) {
    distance *= size;
  }
  const std::int64_t digit = worker / distance % size;
  std::vector<Rank> members;
  for (std::int64_t d = 0; d < size; ++d) {
    const std::int64_t member = worker + (d - digit) * distance;
    if (member < workers) {
      members.push_back(static_cast<Rank>(member));
    }
  }
  return members;
}

std::unique_ptr<Mixer> make_group_mixer(const SyncSpec& spec, Group& workers) {
  return std::make_unique<GroupMixer>(spec, workers);
}

}  // namespace trireme::train
