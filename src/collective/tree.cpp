// Trees in which whole vectors (broadcast) or shrinking halves (scatter) travel.
//
// Minimum spanning tree, L = ceil(log2 p) rounds: split the line of ranks in two; the root sends to
// one rank of the other half; recurse into both halves concurrently. Chan, Heimlich, Purkayastha,
// van de Geijn, "Collective communication: theory, practice, and experience", 2007.
//   broadcast: L rounds of the whole vector           L (alpha + n beta)
//   scatter:   each round only the blocks of the half L alpha + (p-1)/p n beta
// The scatter's cost holds for every p and root because the root stays in the larger half: it
// always sends the smaller half's blocks, floor(m/2) of m, and at most ceil(m/2) remain, down to 1:
// p-1 blocks in total. (The paper's split can leave a new root in a smaller half and then sends
// more: 3 blocks instead of 2 for p = 3, root 2.)
//
// Binary tree: a heap with the root on top, one level per step. An inner rank sends two messages in
// a step, so one-port timing takes twice as long for such a level.
#include <bit>

#include "collective/algorithms.h"

namespace trireme {
namespace {

/// Ranks left..right, of which `root` has the data.
struct Span {
  Rank left;
  Rank right;
  Rank root;
};

/// The halves of a span: where the root stays, and the other with its new root at its right end.
struct Halves {
  Span kept;
  Span other;
};

Halves halve(const Span& span) {
  const Rank m = span.right - span.left + 1;
  const Rank larger_left = span.left + (m + 1) / 2 - 1;
  if (span.root <= larger_left) {
    return {{span.left, larger_left, span.root}, {larger_left + 1, span.right, span.right}};
  }
  const Rank mid = span.left + m / 2 - 1;
  return {{mid + 1, span.right, span.root}, {span.left, mid, mid}};
}

/// Fills in the steps of a spanning tree; sends `blocks_for(other half)` to the other half.
template <class BlocksFor>
Schedule spanning_tree(Schedule schedule, const BlocksFor& blocks_for) {
  std::vector<Span> spans{{0, schedule.ranks - 1, schedule.root}};
  for (int round = 0; round < ceil_log2(schedule.ranks); ++round) {
    Step step;
    std::vector<Span> next;
    for (const Span& span : spans) {
      if (span.left == span.right) {
        continue;
      }
      const auto [kept, other] = halve(span);
      step.transfers.push_back({span.root, other.root, Action::Copy, {blocks_for(other)}});
      next.push_back(kept.left < other.left ? kept : other);
      next.push_back(kept.left < other.left ? other : kept);
    }
    schedule.steps.push_back(std::move(step));
    spans = std::move(next);
  }
  return schedule;
}

}  // namespace

Schedule frame(Operation operation, Rank ranks, Layout layout, Block blocks, Rank root) {
  return {.operation = operation,
          .algorithm = {},
          .ranks = ranks,
          .root = root,
          .layout = layout,
          .blocks = blocks,
          .steps = {}};
}

Rank wrapped(std::int64_t value, Rank p) {
  return static_cast<Rank>((value % p + p) % p);
}

int ceil_log2(Rank p) {
  return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(p - 1)));
}

int floor_log2(Rank p) {
  return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(p))) - 1;
}

Schedule tree_broadcast(Rank p, Rank root) {
  return spanning_tree(frame(Operation::Broadcast, p, Layout::Split, 1, root),
                       [](const Span&) { return BlockRun{}; });
}

Schedule tree_scatter(Rank p, Rank root) {
  return spanning_tree(frame(Operation::Scatter, p, Layout::Split, p, root), [](const Span& other) {
    return BlockRun{other.left, other.right - other.left + 1, 1};
  });
}

Schedule binary_tree_broadcast(Rank p, Rank root) {
  Schedule schedule = frame(Operation::Broadcast, p, Layout::Split, 1, root);
  const auto rank_at = [&](Rank place) {
    return static_cast<Rank>((static_cast<std::int64_t>(place) + root) % p);
  };
  for (Rank level = 1; level < p;
       level = 2 * level + 1) {  // places level .. 2*level are one level of the heap
    Step step;
    for (Rank place = level; place < p && place <= 2 * level; ++place) {
      step.transfers.push_back(
          {rank_at((place - 1) / 2), rank_at(place), Action::Copy, {BlockRun{}}});
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

}  // namespace trireme
