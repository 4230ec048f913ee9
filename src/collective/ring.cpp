// Rings and chains: every rank communicates only with its two neighbors, and all links are busy in every step.
//
// Ring all-gather, p-1 steps: in step t rank i sends block i-t to rank i+1.
//   (p-1) alpha + (p-1)/p n beta
// Ring all-reduce, 2(p-1) steps: two passes around the ring, first adding, then copying. In step t of the first pass
// rank i sends chunk i-t, and in the end owns the sum of chunk i+1; in the second it sends chunk i+1-t.
//   2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma
// Chain broadcast: the ranks form a line starting at the root, the vector is split into k segments; in step s the rank
// at place j forwards segment s-j.
//   (p-2+k) (alpha + n/k beta)
//
// Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#include "base/indexed_vector.h"
#include "collective/algorithms.h"

namespace trireme {
namespace {

/// One pass around the ring: in step t rank i sends block i + offset - t to rank i+1.
void append_pass(Schedule& schedule, Rank offset, Action action) {
  const Rank p = schedule.ranks;
  for (Rank t = 0; t + 1 < p; ++t) {
    const Rank turn = (offset - t + p) % p;
    schedule.steps.push_back({{},
                              {Rotation{.first = 0,
                                        .stride = 1,
                                        .count = p,
                                        .shift = 1,
                                        .action = action,
                                        .blocks = {{.column_turn = turn}}}}});
  }
}

}  // namespace

Schedule ring_allgather(Rank p) {
  Schedule schedule = frame(Operation::Allgather, p, Layout::Split, p);
  append_pass(schedule, 0, Action::Copy);
  return schedule;
}

Schedule ring_allgather_after(const Schedule& scatter) {
  const Rank p = scatter.ranks;
  IndexedVector<Rank, BlockRun> held(p, BlockRun{0, 0, 1});
  held[scatter.root] = {0, p, 1};
  for (const Step& step : scatter.steps) {
    for_each_message(step, [&](const Message& m) { held[m.to] = m.blocks.front(); });
  }
  Schedule schedule = ring_allgather(p);
  for (Step& step : schedule.steps) {
    Rotation& rotation = step.rotations.front();
    for (Rank place = 0; place < p; ++place) {
      const Block block = turned_block(rotation.blocks.front(), place, p);
      const BlockRun& has = held[(place + 1) % p];
      if (block >= has.first && block < has.first + has.count) {
        rotation.silent.push_back(place);
      }
    }
  }
  return schedule;
}

Schedule ring_allreduce(Rank p) {
  Schedule schedule = frame(Operation::Allreduce, p, Layout::Split, p);
  append_pass(schedule, 0, Action::Combine);
  append_pass(schedule, 1, Action::Copy);
  return schedule;
}

Schedule chain_broadcast(Rank p, Rank root, std::int64_t segments) {
  Schedule schedule = frame(Operation::Broadcast, p, Layout::Split, segments, root);
  const auto rank_at = [&](std::int64_t place) { return static_cast<Rank>((place + root) % p); };
  for (std::int64_t s = 0; p > 1 && s < p - 2 + segments; ++s) {
    Step step;
    for (std::int64_t place = std::max<std::int64_t>(0, s - segments + 1);
         place <= s && place + 1 < p; ++place) {
      step.transfers.push_back(
          {rank_at(place), rank_at(place + 1), Action::Copy, {BlockRun{s - place, 1, 1}}});
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

}  // namespace trireme
