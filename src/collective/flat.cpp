// Algorithms that route everything through one rank, and the textbook naive all-reduce.
//
// Flat: the root sends to all others in one step (a parameter server with one server). One wide round;
// with one port
//   (p-1) (alpha + n beta)
// Naive all-reduce: a sequence of flat reduces, one per root; p(p-1) whole vectors.
//   p (p-1) (alpha + n beta + n gamma)
#include "collective/algorithms.h"

namespace trireme {
namespace {

/// The root sends `blocks_for(rank)` to every other rank in one step.
template <class BlocksFor>
Schedule star(Schedule schedule, const BlocksFor& blocks_for) {
  if (schedule.ranks == 1) {
    return schedule;
  }
  Step step;
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    if (rank != schedule.root) {
      step.transfers.push_back({schedule.root, rank, Action::Copy, {blocks_for(rank)}});
    }
  }
  schedule.steps.push_back(std::move(step));
  return schedule;
}

}  // namespace

Schedule flat_broadcast(Rank p, Rank root) {
  return star(frame(Operation::Broadcast, p, Layout::Split, 1, root),
              [](Rank) { return BlockRun{}; });
}

Schedule flat_scatter(Rank p, Rank root) {
  return star(frame(Operation::Scatter, p, Layout::Split, p, root), [](Rank rank) {
    return BlockRun{rank, 1, 1};
  });
}

Schedule naive_allreduce(Rank p) {
  const Schedule whole = frame(Operation::Allreduce, p, Layout::Replicas, p);
  Schedule schedule = whole;
  for (Rank root = 0; root < p; ++root) {
    // Each reduce has its own replica of the vectors, so that every rank still has its own input for the next.
    schedule = then(std::move(schedule),
                    embedded(reversed(flat_broadcast(p, root)), {.base = root}, whole));
  }
  return schedule;
}

}  // namespace trireme
