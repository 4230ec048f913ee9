// Shift algorithms: in every round all ranks send over the same distance, so any p works.
//
// Bruck all-gather, L = ceil(log2 p) rounds: in round k rank i sends the 2^k blocks starting with
// its own to rank i - 2^k, in the last round only those still missing.
//   L alpha + (p-1)/p n beta
// Bruck all-to-all: a block that must travel distance j goes by the binary digits of j: in round k
// every block whose digit k is 1 moves by 2^k. Half of the data moves in each round.
//   L alpha + (n/2) L beta   (p = 2^k)
// Pairwise all-to-all: in round t rank i sends directly to rank i + t.
//   (p-1) alpha + (p-1)/p n beta
// Dissemination barrier: in round k rank i notifies rank i + 2^k.
//   L alpha
//
// Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications", 1997.
#include "collective/algorithms.h"

namespace trireme {
namespace {

/// All ranks send by `shift`; the caller fills in the blocks.
Rotation shift_by(Rank p, std::int64_t shift, Action action) {
  return {.first = 0,
          .stride = 1,
          .count = p,
          .shift = wrapped(shift, p),
          .action = action,
          .blocks = {}};
}

/// The block that started at rank i + source for the rank `distance` further on, relative to rank
/// i.
TurningRun pair_block(Rank p, std::int64_t source, Rank distance) {
  return {.base = 0,
          .row_stride = p,
          .row_turn = wrapped(source, p),
          .column_stride = 1,
          .column_turn = wrapped(source + distance, p)};
}

}  // namespace

Schedule bruck_allgather(Rank p) {
  Schedule schedule = frame(Operation::Allgather, p, Layout::Split, p);
  for (Rank have = 1; have < p; have *= 2) {
    Rotation rotation = shift_by(p, -have, Action::Copy);
    for (Rank k = 0; k < std::min(have, p - have); ++k) {
      rotation.blocks.push_back({.column_turn = k});
    }
    schedule.steps.push_back({{}, {std::move(rotation)}});
  }
  return schedule;
}

Schedule bruck_alltoall(Rank p) {
  Schedule schedule = frame(Operation::Alltoall, p, Layout::Pairs, static_cast<Block>(p) * p);
  for (Rank bit = 1; bit < p; bit *= 2) {
    Rotation rotation = shift_by(p, bit, Action::Copy);
    for (Rank distance = bit; distance < p; ++distance) {
      if ((distance & bit) != 0) {
        const Rank travelled = distance & (bit - 1);
        rotation.blocks.push_back(pair_block(p, -std::int64_t{travelled}, distance));
      }
    }
    schedule.steps.push_back({{}, {std::move(rotation)}});
  }
  return schedule;
}

Schedule pairwise_alltoall(Rank p) {
  Schedule schedule = frame(Operation::Alltoall, p, Layout::Pairs, static_cast<Block>(p) * p);
  for (Rank distance = 1; distance < p; ++distance) {
    Rotation rotation = shift_by(p, distance, Action::Copy);
    rotation.blocks.push_back(pair_block(p, 0, distance));
    schedule.steps.push_back({{}, {std::move(rotation)}});
  }
  return schedule;
}

Schedule dissemination_barrier(Rank p) {
  Schedule schedule = frame(Operation::Barrier, p, Layout::Split, 1);
  for (Rank distance = 1; distance < p; distance *= 2) {
    Rotation rotation = shift_by(p, distance, Action::Combine);
    rotation.blocks.push_back({.column_stride = 0});
    schedule.steps.push_back({{}, {std::move(rotation)}});
  }
  return schedule;
}

}  // namespace trireme
