// Recursive doubling and halving: partners at distances 1, 2, 4, … exchange their data.
//
// All-gather by doubling, p = 2^k: the data of a rank doubles each round.
//   k alpha + (p-1)/p n beta
// All-reduce by doubling (the butterfly): whole vectors.
//   k (alpha + n beta + n gamma)
// All-reduce by halving and doubling: a reduce-scatter at distances p/2 … 1, then the all-gather.
//   2k alpha + 2(p-1)/p n beta + (p-1)/p n gamma
//
// p not a power of two: with q = 2^floor(log2 p), the surplus e = p - q ranks fold: each of the ranks 1, 3, … 2e-1
// hands its part to its left neighbor first and gets the result from it last (two more rounds); the other q ranks, the
// core, do the rest among themselves.
//
// Rabenseifner, "Optimization of collective reduction operations", 2004; Thakur, Rabenseifner, Gropp,
// "Optimization of collective communication operations in MPICH", 2005.
#include "collective/algorithms.h"

namespace trireme {
namespace {

/// Which ranks form the core and which ranks they represent.
class Fold {
 public:
  explicit Fold(Rank p) : core_(Rank{1} << floor_log2(p)), surplus_(p - core_) {}
  [[nodiscard]] Rank core() const { return core_; }
  [[nodiscard]] Rank surplus() const { return surplus_; }
  /// The rank of core member c; also the first of the ranks that it represents. first_rank(core()) == p.
  [[nodiscard]] Rank first_rank(Rank c) const { return c < surplus_ ? 2 * c : c + surplus_; }

  /// A step in which every folded rank and its neighbor exchange: in = towards the core.
  template <class BlocksOf>
  [[nodiscard]] Step step(bool in, Action action, const BlocksOf& blocks_of) const {
    Step step;
    for (Rank c = 0; c < surplus_; ++c) {
      const Rank member = first_rank(c);
      const Rank folded = member + 1;
      step.transfers.push_back(
          {in ? folded : member, in ? member : folded, action, blocks_of(folded)});
    }
    return step;
  }

 private:
  Rank core_;
  Rank surplus_;
};

/// The first member of the aligned group of `size` that c is in.
Rank group_of(Rank c, Rank size) {
  return c - c % size;
}

/// One round of exchanges among the core at this distance; `blocks_of(c)` is what member c sends to
/// its partner.
template <class BlocksOf>
Step exchange(const Fold& fold, Rank distance, Action action, const BlocksOf& blocks_of) {
  Step step;
  for (Rank c = 0; c < fold.core(); ++c) {
    step.transfers.push_back(
        {fold.first_rank(c), fold.first_rank(c ^ distance), action, {blocks_of(c)}});
  }
  return step;
}

/// All blocks of 0..blocks-1 but one.
std::vector<BlockRun> all_but(Block blocks, Block without) {
  std::vector<BlockRun> runs;
  if (without > 0) {
    runs.push_back({0, without, 1});
  }
  if (without + 1 < blocks) {
    runs.push_back({without + 1, blocks - without - 1, 1});
  }
  return runs;
}

}  // namespace

Schedule doubling_allgather(Rank p) {
  Schedule schedule = frame(Operation::Allgather, p, Layout::Split, p);
  const Fold fold(p);
  if (fold.surplus() > 0) {
    schedule.steps.push_back(fold.step(true, Action::Copy, [](Rank folded) {
      return std::vector<BlockRun>{{folded, 1, 1}};
    }));
  }
  for (Rank distance = 1; distance < fold.core(); distance *= 2) {
    // Before this round member c has the blocks of its aligned group of `distance` members.
    schedule.steps.push_back(exchange(fold, distance, Action::Copy, [&](Rank c) {
      const Rank group = group_of(c, distance);
      const Block first = fold.first_rank(group);
      return BlockRun{first, fold.first_rank(group + distance) - first, 1};
    }));
  }
  if (fold.surplus() > 0) {
    schedule.steps.push_back(
        fold.step(false, Action::Copy, [&](Rank folded) { return all_but(p, folded); }));
  }
  return schedule;
}

Schedule doubling_allreduce(Rank p) {
  Schedule schedule = frame(Operation::Allreduce, p, Layout::Split, 1);
  const Fold fold(p);
  const auto whole = [](Rank) { return std::vector<BlockRun>{BlockRun{}}; };
  if (fold.surplus() > 0) {
    schedule.steps.push_back(fold.step(true, Action::Combine, whole));
  }
  for (Rank distance = 1; distance < fold.core(); distance *= 2) {
    schedule.steps.push_back(
        exchange(fold, distance, Action::Combine, [](Rank) { return BlockRun{}; }));
  }
  if (fold.surplus() > 0) {
    schedule.steps.push_back(fold.step(false, Action::Copy, whole));
  }
  return schedule;
}

Schedule halving_allreduce(Rank p) {
  const Fold fold(p);
  const Rank q = fold.core();
  Schedule schedule = frame(Operation::Allreduce, p, Layout::Split, q);
  const auto whole = [q](Rank) { return std::vector<BlockRun>{{0, q, 1}}; };
  if (fold.surplus() > 0) {
    schedule.steps.push_back(fold.step(true, Action::Combine, whole));
  }
  // Member c keeps the half of its current group's blocks on its own side and sends the other.
  for (Rank distance = q / 2; distance > 0; distance /= 2) {
    schedule.steps.push_back(exchange(fold, distance, Action::Combine, [&](Rank c) {
      return BlockRun{group_of(c ^ distance, distance), distance, 1};
    }));
  }
  for (Rank distance = 1; distance < q; distance *= 2) {
    schedule.steps.push_back(exchange(fold, distance, Action::Copy, [&](Rank c) {
      return BlockRun{group_of(c, distance), distance, 1};
    }));
  }
  if (fold.surplus() > 0) {
    schedule.steps.push_back(fold.step(false, Action::Copy, whole));
  }
  return schedule;
}

}  // namespace trireme
