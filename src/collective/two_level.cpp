// Two levels: p = m * d ranks on m nodes of d, fast links inside a node, slow ones between. The slow links carry as
// little as possible, and all d ranks of a node use them concurrently.
//
//   broadcast, scatter  between the nodes among the ranks at the root's place, then inside each node
//   reduce-scatter      inside each node (d sums of n/d), then between ranks at the same place
//   all-reduce          reduce-scatter inside, all-reduce of n/d between, all-gather inside: a rank
//                       sends 2 (m-1)/m n/d bytes over slow links, in a flat ring 2 (p-1)/p n
//   all-to-all          inside each node everything for place j goes to place j, then between ranks
//                       at the same place
//   barrier             inside, between the first ranks, inside
#include "collective/algorithms.h"

namespace trireme {
namespace {

/// part(k) for every k below count, all concurrently.
template <class Part>
Schedule all_at_once(Rank count, const Part& part) {
  Schedule schedule = part(0);
  for (Rank k = 1; k < count; ++k) {
    schedule = in_parallel(std::move(schedule), part(k));
  }
  return schedule;
}

}  // namespace

Schedule two_level_broadcast(Rank p, Rank root, Rank d) {
  const Schedule whole = frame(Operation::Broadcast, p, Layout::Split, 1, root);
  const Schedule inside = tree_broadcast(d, root % d);
  const Schedule between =
      embedded(tree_broadcast(p / d, root / d), {.first_rank = root % d, .rank_stride = d}, whole);
  return then(between, all_at_once(p / d, [&](Rank node) {
                return embedded(inside, {.first_rank = node * d}, whole);
              }));
}

Schedule two_level_scatter(Rank p, Rank root, Rank d) {
  const Schedule whole = frame(Operation::Scatter, p, Layout::Split, p, root);
  const Schedule inside = tree_scatter(d, root % d);
  const Schedule between =
      embedded(tree_scatter(p / d, root / d),
               {.first_rank = root % d, .rank_stride = d, .row_stride = d, .run_count = d}, whole);
  return then(between, all_at_once(p / d, [&](Rank node) {
                return embedded(inside, {.first_rank = node * d, .base = Block{node} * d}, whole);
              }));
}

Schedule two_level_reduce_scatter(Rank p, Rank d) {
  const Rank m = p / d;
  const Schedule whole = frame(Operation::ReduceScatter, p, Layout::Split, p);
  const Schedule inside = reversed(ring_allgather(d));
  const Schedule between = reversed(ring_allgather(m));
  // Inside each node, place j collects what place j of every node will own: blocks j, j + d, ….
  Schedule first = all_at_once(m, [&](Rank node) {
    return embedded(inside, {.first_rank = node * d, .run_count = m, .run_stride = d}, whole);
  });
  return then(std::move(first), all_at_once(d, [&](Rank place) {
                return embedded(
                    between,
                    {.first_rank = place, .rank_stride = d, .base = place, .row_stride = d}, whole);
              }));
}

Schedule two_level_allreduce(Rank p, Rank d) {
  const Rank m = p / d;
  const Schedule whole = frame(Operation::Allreduce, p, Layout::Split, p);
  const auto inside =
      [&](const Schedule& part) {  // place j has the j-th of d parts, each of m blocks
        return all_at_once(m, [&](Rank node) {
          return embedded(part, {.first_rank = node * d, .row_stride = m, .run_count = m}, whole);
        });
      };
  const Schedule ring = ring_allreduce(m);
  const Schedule between = all_at_once(d, [&](Rank place) {
    return embedded(ring,
                    {.first_rank = place, .rank_stride = d, .base = static_cast<Block>(place) * m},
                    whole);
  });
  const Schedule gather = ring_allgather(d);
  return then(then(inside(reversed(gather)), between), inside(gather));
}

Schedule two_level_alltoall(Rank p, Rank d) {
  const Rank m = p / d;
  const Block row = p;  // blocks of one source rank
  const Schedule whole = frame(Operation::Alltoall, p, Layout::Pairs, row * p);
  const Schedule inside = pairwise_alltoall(d);
  const Schedule between = pairwise_alltoall(m);
  Schedule first = all_at_once(m, [&](Rank node) {
    return embedded(inside,
                    {.first_rank = node * d,
                     .base = Block{node} * d * row,
                     .columns = d,
                     .row_stride = row,
                     .column_stride = 1,
                     .run_count = m,
                     .run_stride = d},
                    whole);
  });
  return then(std::move(first), all_at_once(d, [&](Rank place) {
                return embedded(between,
                                {.first_rank = place,
                                 .rank_stride = d,
                                 .base = place,
                                 .columns = m,
                                 .row_stride = d * row,
                                 .column_stride = d,
                                 .run_count = d,
                                 .run_stride = row},
                                whole);
              }));
}

Schedule two_level_barrier(Rank p, Rank d) {
  const Schedule whole = frame(Operation::Barrier, p, Layout::Split, 1);
  const auto inside = [&](const Schedule& part) {
    return all_at_once(p / d,
                       [&](Rank node) { return embedded(part, {.first_rank = node * d}, whole); });
  };
  const Schedule between = embedded(dissemination_barrier(p / d), {.rank_stride = d}, whole);
  return then(then(inside(reversed(tree_broadcast(d, 0))), between), inside(tree_broadcast(d, 0)));
}

}  // namespace trireme
