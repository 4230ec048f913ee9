#include "collective/formulas.h"

#include "collective/algorithms.h"

namespace trireme {

Seconds Terms::at(double bytes, const LinkLevel& link, Seconds gamma_per_byte) const {
  return {alpha * link.alpha.count +
          bytes * (beta * link.beta.count + gamma * gamma_per_byte.count)};
}

Seconds Formula::at(double bytes, const CostModel& costs) const {
  return {inner.at(bytes, costs.levels.front(), costs.gamma).count +
          outer.at(bytes, costs.levels.back(), costs.gamma).count};
}

Terms lower_bound(Operation operation, Rank ranks) {
  const double rounds = ceil_log2(ranks);
  const double share = (ranks - 1.0) / ranks;
  const double moves = ranks > 1 ? 1.0 : 0.0;  // a single rank has nothing to send
  switch (operation) {
    case Operation::Broadcast:
      return {rounds, moves, 0};
    case Operation::Reduce:
      return {rounds, moves, share};
    case Operation::Scatter:
    case Operation::Gather:
    case Operation::Allgather:
    case Operation::Alltoall:
      return {rounds, share, 0};
    case Operation::ReduceScatter:
      return {rounds, share, share};
    case Operation::Allreduce:
      return {rounds, 2 * share, share};
    case Operation::Barrier:
      return {rounds, 0, 0};
  }
  return {};
}

Seconds lower_bound(Operation operation, Rank ranks, const Payload& payload,
                    const CostModel& costs) {
  LinkLevel fastest = costs.levels.front();
  for (const LinkLevel& level : costs.levels) {
    fastest.alpha = std::min(fastest.alpha, level.alpha);
    fastest.beta = std::min(fastest.beta, level.beta);
  }
  const Terms terms = lower_bound(operation, ranks);
  const auto bytes =
      static_cast<double>(payload.elements) * static_cast<double>(payload.element_bytes);
  Seconds bound = terms.at(bytes, fastest, costs.gamma);
  if (operation == Operation::Scatter || operation == Operation::Gather) {
    // The root's own block does not move, and it may be the one that has an extra element.
    const std::int64_t moved = payload.elements - (payload.elements + ranks - 1) / ranks;
    bound.count = terms.alpha * fastest.alpha.count +
                  static_cast<double>(moved * payload.element_bytes) * fastest.beta.count;
  }
  return bound;
}

std::optional<double> crossover(const Terms& shorter, const Terms& longer, const CostModel& costs) {
  const LinkLevel& link = costs.levels.front();
  const double per_byte_saved = (shorter.beta - longer.beta) * link.beta.count +
                                (shorter.gamma - longer.gamma) * costs.gamma.count;
  if (per_byte_saved <= 0) {
    return std::nullopt;
  }
  return (longer.alpha - shorter.alpha) * link.alpha.count / per_byte_saved;
}

namespace formulas {
namespace {

Formula flat(const Terms& terms) {
  return {terms, {}};
}

/// (p-1)/p
double share(double p) {
  return (p - 1) / p;
}

/// log2 of the core and whether there is a fold, as in recursive.cpp.
struct Core {
  explicit Core(Rank p)
      : rounds(floor_log2(p)), size(Rank{1} << floor_log2(p)), surplus(p - size) {}
  double rounds;
  Rank size;
  Rank surplus;
};

/// Surplus ranks hand in their vector and get the result: two more rounds of whole vectors.
Terms fold_cost(const Core& core) {
  return core.surplus > 0 ? Terms{2, 2, 1} : Terms{};
}

Terms tree_broadcast_over(Rank p) {
  const double rounds = ceil_log2(p);
  return {rounds, rounds, 0};
}

Terms tree_scatter_over(Rank p) {
  return {static_cast<double>(ceil_log2(p)), share(p), 0};
}

Terms ring_allgather_over(Rank p) {
  return {p - 1.0, share(p), 0};
}

Rank nodes(const BuildOptions& o) {
  return o.ranks / o.ranks_per_node;
}

}  // namespace

Terms dual(const Terms& terms) {
  return {terms.alpha, terms.beta, terms.beta};
}

Formula dual(const Formula& f) {
  return {dual(f.inner), dual(f.outer)};
}

Formula operator+(const Formula& a, const Formula& b) {
  return {a.inner + b.inner, a.outer + b.outer};
}

Formula latency_only(const Formula& f) {
  return {{f.inner.alpha, 0, 0}, {f.outer.alpha, 0, 0}};
}

Formula tree_broadcast(const BuildOptions& o) {
  return flat(tree_broadcast_over(o.ranks));
}

Formula tree_scatter(const BuildOptions& o) {
  return flat(tree_scatter_over(o.ranks));
}

Formula binary_tree_broadcast(const BuildOptions& o) {
  // A level takes two messages of its busiest parent, except for a last level of a single rank (p a
  // power of two).
  const Core core(o.ranks);
  const double messages = 2 * core.rounds - (core.surplus == 0 && o.ranks > 1 ? 1 : 0);
  return flat({messages, messages, 0});
}

Formula double_tree_broadcast(const BuildOptions& o) {
  const auto segments = static_cast<double>(o.segments);
  const double rounds =
      o.ranks > 1 ? static_cast<double>(double_tree_depth(o.ranks)) + 2 * (segments - 1) : 0;
  return flat({rounds, rounds / (2 * segments), 0});
}

Formula ring_allgather(const BuildOptions& o) {
  return flat(ring_allgather_over(o.ranks));
}

Formula chain_broadcast(const BuildOptions& o) {
  const auto segments = static_cast<double>(o.segments);
  const double rounds = o.ranks > 1 ? o.ranks - 2 + segments : 0;
  return flat({rounds, rounds / segments, 0});
}

Formula doubling_allgather(const BuildOptions& o) {
  const Core core(o.ranks);
  double blocks =
      core.surplus > 0 ? 1.0 + (o.ranks - 1) : 0.0;  // folding in takes one, folding out all the
                                                     // others
  for (Rank distance = 1; distance < core.size; distance *= 2) {
    blocks +=
        distance + std::min(distance, core.surplus);  // the first group represents the most ranks
  }
  return flat({core.rounds + fold_cost(core).alpha, blocks / o.ranks, 0});
}

Formula doubling_allreduce(const BuildOptions& o) {
  const Core core(o.ranks);
  return flat(core.rounds * Terms{1, 1, 1} + fold_cost(core));
}

Formula halving_allreduce(const BuildOptions& o) {
  const Core core(o.ranks);
  return flat(Terms{2 * core.rounds, 2 * share(core.size), share(core.size)} + fold_cost(core));
}

Formula bruck_alltoall(const BuildOptions& o) {
  std::int64_t blocks = 0;  // over all rounds: one for each 1 bit of each distance
  for (Rank bit = 1; bit < o.ranks; bit *= 2) {
    blocks += o.ranks / (2 * bit) * bit + std::max(0, o.ranks % (2 * bit) - bit);
  }
  return flat({static_cast<double>(ceil_log2(o.ranks)), static_cast<double>(blocks) / o.ranks, 0});
}

Formula flat_broadcast(const BuildOptions& o) {
  return flat({o.ranks - 1.0, o.ranks - 1.0, 0});
}

Formula naive_allreduce(const BuildOptions& o) {
  return flat(static_cast<double>(o.ranks) * (o.ranks - 1.0) * Terms{1, 1, 1});
}

Formula whole_ring_allreduce(const BuildOptions& o) {
  return flat((o.ranks - 1.0) * Terms{1, 1, 1});
}

Formula two_level_broadcast(const BuildOptions& o) {
  return {tree_broadcast_over(o.ranks_per_node), tree_broadcast_over(nodes(o))};
}

Formula two_level_scatter(const BuildOptions& o) {
  const Terms inside = tree_scatter_over(o.ranks_per_node);
  return {{inside.alpha, inside.beta / nodes(o), 0}, tree_scatter_over(nodes(o))};
}

Formula two_level_allgather(const BuildOptions& o) {
  const Terms between = ring_allgather_over(nodes(o));
  return {ring_allgather_over(o.ranks_per_node),
          {between.alpha, between.beta / o.ranks_per_node, 0}};
}

Formula two_level_allreduce(const BuildOptions& o) {
  const Terms inside = ring_allgather_over(o.ranks_per_node);
  const Terms between = ring_allgather_over(nodes(o));
  const Terms both = between + dual(between);
  return {inside + dual(inside),
          {both.alpha, both.beta / o.ranks_per_node, both.gamma / o.ranks_per_node}};
}

Formula two_level_alltoall(const BuildOptions& o) {
  return {ring_allgather_over(o.ranks_per_node), ring_allgather_over(nodes(o))};
}

Formula two_level_barrier(const BuildOptions& o) {
  return {{2.0 * ceil_log2(o.ranks_per_node), 0, 0},
          {static_cast<double>(ceil_log2(nodes(o))), 0, 0}};
}

}  // namespace formulas
}  // namespace trireme
