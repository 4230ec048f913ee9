// Mixers: keep the models of workers in sync by averaging them after steps.
//
//   local=K   every K steps, over all workers
//   gossip    every step, with one worker at a distance of 1, 2, 4, … (stochastic gradient push, Assran et al. 2019)
//   group=S   every step, in groups of S workers that change (WAGMA-SGD, Li et al. 2021)
//   hogwild   all workers update one vector (Hogwild!, Niu et al. 2011)
//
// A mixer belongs to one worker; all workers make the same calls, except that with hogwild mix() is independent. One
// thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "trireme/comm.h"
#include "trireme/sync.h"

namespace trireme::train {

class Mixer {
 public:
  Mixer() = default;
  virtual ~Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  /// All workers continue from this model, which is the same on all of them. Must be called first. Collective.
  virtual void reset(std::span<const float> model) = 0;
  /// After a worker's step, counted from 1: replaces its model by the one to continue from. Throws CommError.
  virtual void mix(std::int64_t step, std::span<float> model) = 0;
  /// Replaces the model with the average over all workers, without changing the workers' own models. Collective.
  virtual void average(std::span<float> model) = 0;
};

/// For one of the strategies above. `workers` are the workers' ranks that have the same shards; for hogwild, threads of
/// this process. The group's world must outlive the mixer. Collective. Throws Error(Usage) for any other strategy.
[[nodiscard]] std::unique_ptr<Mixer> make_mixer(const SyncSpec& spec, Group& workers);

/// The workers that average with `worker` in a round of group=`size`, including itself, ascending. Round r averages
/// workers at a distance of size^r, so that with size^R workers R rounds give the average over all.
[[nodiscard]] std::vector<Rank> group_in_round(Rank worker, Rank workers, Rank size, int round);
/// After how many rounds the groups repeat: the least R with size^R >= workers.
[[nodiscard]] int rounds_of(Rank workers, Rank size);

// The strategies, one file each.
[[nodiscard]] std::unique_ptr<Mixer> make_local_mixer(int steps, Group& workers);
[[nodiscard]] std::unique_ptr<Mixer> make_gossip_mixer(Group& workers);
[[nodiscard]] std::unique_ptr<Mixer> make_group_mixer(const SyncSpec& spec, Group& workers);
[[nodiscard]] std::unique_ptr<Mixer> make_hogwild_mixer(Group& workers);

/// In place, over the ranks of a group: the same bits on all.
void average_over(Group& group, std::span<float> elements);

}  // namespace trireme::train
