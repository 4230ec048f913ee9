// The table of algorithms. Rows for duals and compositions are defined only here.
#include "collective/catalogue.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/text.h"
#include "collective/algorithms.h"
#include "collective/formulas.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

using Options = BuildOptions;
namespace f = formulas;

struct AlgorithmRow {
  Algorithm algorithm;
  std::string_view name;
  AlgorithmProperties properties{};
};

/// In the order of the enum.
constexpr std::array kAlgorithms{
    AlgorithmRow{Algorithm::Mst, "mst"},
    AlgorithmRow{Algorithm::Ring, "ring"},
    AlgorithmRow{Algorithm::Long, "long"},
    AlgorithmRow{Algorithm::RecursiveDoubling, "recursive-doubling"},
    AlgorithmRow{Algorithm::RecursiveHalving, "recursive-halving"},
    AlgorithmRow{Algorithm::Bruck, "bruck"},
    AlgorithmRow{Algorithm::Pairwise, "pairwise", {.forwards_blocks = false}},
    AlgorithmRow{Algorithm::Chain, "chain", {.segmented = true}},
    AlgorithmRow{Algorithm::Flat, "flat", {.forwards_blocks = false}},
    AlgorithmRow{Algorithm::Naive,
                 "naive",
                 {.bit_identical = false, .forwards_blocks = false, .max_ranks = kMaxNaiveRanks}},
    AlgorithmRow{Algorithm::WholeRing, "whole-ring", {.bit_identical = false}},
    AlgorithmRow{Algorithm::BinaryTree, "binary-tree"},
    AlgorithmRow{Algorithm::DoubleTree, "double-tree", {.segmented = true}},
    AlgorithmRow{Algorithm::TwoLevel, "two-level", {.two_level = true}},
};

constexpr const AlgorithmRow& row_of(Algorithm algorithm) {
  return kAlgorithms.at(position_of(algorithm));
}
static_assert(std::ranges::all_of(kAlgorithms, [](const AlgorithmRow& row) {
  return row_of(row.algorithm).name == row.name;
}));

constexpr std::int64_t kMaxSegments = 1 << 20;

Schedule relabelled(Schedule schedule, Operation operation) {
  schedule.operation = operation;
  return schedule;
}

/// The reversed broadcast, then the broadcast.
Schedule reduce_then(const Schedule& broadcast) {
  return relabelled(then(reversed(broadcast), broadcast), Operation::Allreduce);
}

Schedule as_barrier(const Schedule& allreduce) {
  return relabelled(allreduce, Operation::Barrier);
}

Schedule whole_ring(Rank p) {
  Schedule schedule = reversed(ring_allgather(p));
  schedule.operation = Operation::Allreduce;
  schedule.layout = Layout::Replicas;
  return schedule;
}

constexpr auto kMstBroadcast = [](const Options& o) { return tree_broadcast(o.ranks, o.root); };
constexpr auto kBinaryBroadcast = [](const Options& o) {
  return binary_tree_broadcast(o.ranks, o.root);
};
constexpr auto kFlatBroadcast = [](const Options& o) { return flat_broadcast(o.ranks, o.root); };
constexpr auto kChainBroadcast = [](const Options& o) {
  return chain_broadcast(o.ranks, o.root, o.segments);
};
constexpr auto kDoubleBroadcast = [](const Options& o) {
  return double_tree_broadcast(o.ranks, o.root, o.segments);
};

/// Formula of the reversed schedule, of reduce + broadcast, and of the same without bytes.
template <auto F>
Formula dual_of(const Options& o) {
  return f::dual(F(o));
}
template <auto F>
Formula there_and_back(const Options& o) {
  using f::operator+;
  return f::dual(F(o)) + F(o);
}

Formula mst_allgather(const Options& o) {
  using f::operator+;
  return f::tree_scatter(o) + f::tree_broadcast(o);
}
Formula mst_reduce_scatter(const Options& o) {
  using f::operator+;
  return f::dual(f::tree_broadcast(o)) + f::tree_scatter(o);
}
Formula long_broadcast(const Options& o) {
  using f::operator+;
  return f::tree_scatter(o) + f::ring_allgather(o);
}
Formula long_reduce(const Options& o) {
  using f::operator+;
  return f::dual(f::ring_allgather(o)) + f::tree_scatter(o);
}

using enum Operation;
using enum Algorithm;

constexpr std::array kCatalogue{
    // Broadcast and, reversed, reduce.
    CatalogueRow{Broadcast, Mst, kMstBroadcast, f::tree_broadcast, "L(α + nβ)"},
    CatalogueRow{Broadcast, Long,
                 [](const Options& o) {
                   const Schedule scatter = tree_scatter(o.ranks, o.root);
                   return relabelled(then(scatter, ring_allgather_after(scatter)), Broadcast);
                 },
                 long_broadcast, "(L + p-1)α + 2(p-1)/p nβ"},
    CatalogueRow{Broadcast, Chain, kChainBroadcast, f::chain_broadcast, "(p-2+k)(α + nβ/k)"},
    CatalogueRow{Broadcast, Flat, kFlatBroadcast, f::flat_broadcast, "(p-1)(α + nβ)"},
    CatalogueRow{Broadcast, BinaryTree, kBinaryBroadcast, f::binary_tree_broadcast,
                 "m(α + nβ), m = 2⌊log2 p⌋ or one less"},
    CatalogueRow{Broadcast, DoubleTree, kDoubleBroadcast, f::double_tree_broadcast,
                 "(D-2+2k)(α + nβ/(2k)), D = depth"},
    CatalogueRow{
        Broadcast, TwoLevel,
        [](const Options& o) { return two_level_broadcast(o.ranks, o.root, o.ranks_per_node); },
        f::two_level_broadcast, "L(m)(α' + nβ') + L(d)(α + nβ)"},
    CatalogueRow{Reduce, Mst, [](const Options& o) { return reversed(kMstBroadcast(o)); },
                 dual_of<f::tree_broadcast>, "L(α + nβ + nγ)"},
    CatalogueRow{Reduce, Long,
                 [](const Options& o) {
                   Schedule all = then(reversed(ring_allgather(o.ranks)),
                                       reversed(tree_scatter(o.ranks, o.root)));
                   all.root = o.root;
                   return relabelled(std::move(all), Reduce);
                 },
                 long_reduce, "(p-1 + L)α + (p-1)/p n(2β + γ)"},
    CatalogueRow{Reduce, Chain, [](const Options& o) { return reversed(kChainBroadcast(o)); },
                 dual_of<f::chain_broadcast>, "(p-2+k)(α + nβ/k + nγ/k)"},
    CatalogueRow{Reduce, Flat, [](const Options& o) { return reversed(kFlatBroadcast(o)); },
                 dual_of<f::flat_broadcast>, "(p-1)(α + nβ + nγ)"},
    CatalogueRow{Reduce, BinaryTree, [](const Options& o) { return reversed(kBinaryBroadcast(o)); },
                 dual_of<f::binary_tree_broadcast>, "m(α + nβ + nγ), m = 2⌊log2 p⌋ or one less"},
    CatalogueRow{Reduce, DoubleTree, [](const Options& o) { return reversed(kDoubleBroadcast(o)); },
                 dual_of<f::double_tree_broadcast>, "(D-2+2k)(α + n(β + γ)/(2k)), D = depth"},
    CatalogueRow{Reduce, TwoLevel,
                 [](const Options& o) {
                   return reversed(two_level_broadcast(o.ranks, o.root, o.ranks_per_node));
                 },
                 dual_of<f::two_level_broadcast>, "L(d)(α + nβ + nγ) + L(m)(α' + nβ' + nγ)"},
    // Scatter and, reversed, gather.
    CatalogueRow{Scatter, Mst, [](const Options& o) { return tree_scatter(o.ranks, o.root); },
                 f::tree_scatter, "Lα + (p-1)/p nβ"},
    CatalogueRow{Scatter, Flat, [](const Options& o) { return flat_scatter(o.ranks, o.root); },
                 f::ring_allgather, "(p-1)α + (p-1)/p nβ"},
    CatalogueRow{
        Scatter, TwoLevel,
        [](const Options& o) { return two_level_scatter(o.ranks, o.root, o.ranks_per_node); },
        f::two_level_scatter, "L(m)α' + (m-1)/m nβ' + L(d)α + (d-1)/d n/m β"},
    CatalogueRow{Gather, Mst,
                 [](const Options& o) { return reversed(tree_scatter(o.ranks, o.root)); },
                 f::tree_scatter, "Lα + (p-1)/p nβ"},
    CatalogueRow{Gather, Flat,
                 [](const Options& o) { return reversed(flat_scatter(o.ranks, o.root)); },
                 f::ring_allgather, "(p-1)α + (p-1)/p nβ"},
    CatalogueRow{Gather, TwoLevel,
                 [](const Options& o) {
                   return reversed(two_level_scatter(o.ranks, o.root, o.ranks_per_node));
                 },
                 f::two_level_scatter, "L(d)α + (d-1)/d n/m β + L(m)α' + (m-1)/m nβ'"},
    // All-gather and, reversed, reduce-scatter.
    CatalogueRow{Allgather, Mst,
                 [](const Options& o) {
                   return relabelled(then(reversed(tree_scatter(o.ranks, 0)),
                                          refined(tree_broadcast(o.ranks, 0), o.ranks)),
                                     Allgather);
                 },
                 mst_allgather, "2Lα + L nβ + (p-1)/p nβ"},
    CatalogueRow{Allgather, Ring, [](const Options& o) { return ring_allgather(o.ranks); },
                 f::ring_allgather, "(p-1)α + (p-1)/p nβ"},
    CatalogueRow{Allgather, RecursiveDoubling,
                 [](const Options& o) { return doubling_allgather(o.ranks); },
                 f::doubling_allgather, "Lα + (p-1)/p nβ (p = 2^k; else folded, two rounds more)"},
    CatalogueRow{Allgather, Bruck, [](const Options& o) { return bruck_allgather(o.ranks); },
                 f::tree_scatter, "Lα + (p-1)/p nβ"},
    CatalogueRow{Allgather, TwoLevel,
                 [](const Options& o) {
                   return reversed(two_level_reduce_scatter(o.ranks, o.ranks_per_node));
                 },
                 f::two_level_allgather, "(m-1)α' + (m-1)/m n/d β' + (d-1)α + (d-1)/d nβ"},
    CatalogueRow{ReduceScatter, Mst,
                 [](const Options& o) {
                   return relabelled(then(refined(reversed(tree_broadcast(o.ranks, 0)), o.ranks),
                                          tree_scatter(o.ranks, 0)),
                                     ReduceScatter);
                 },
                 mst_reduce_scatter, "2Lα + L n(β + γ) + (p-1)/p nβ"},
    CatalogueRow{ReduceScatter, Ring,
                 [](const Options& o) { return reversed(ring_allgather(o.ranks)); },
                 dual_of<f::ring_allgather>, "(p-1)α + (p-1)/p n(β + γ)"},
    CatalogueRow{ReduceScatter, RecursiveHalving,
                 [](const Options& o) { return reversed(doubling_allgather(o.ranks)); },
                 dual_of<f::doubling_allgather>,
                 "Lα + (p-1)/p n(β + γ) (p = 2^k; else folded, two rounds more)"},
    CatalogueRow{ReduceScatter, Bruck,
                 [](const Options& o) { return reversed(bruck_allgather(o.ranks)); },
                 dual_of<f::tree_scatter>, "Lα + (p-1)/p n(β + γ)"},
    CatalogueRow{
        ReduceScatter, TwoLevel,
        [](const Options& o) { return two_level_reduce_scatter(o.ranks, o.ranks_per_node); },
        dual_of<f::two_level_allgather>,
        "(d-1)α + (d-1)/d n(β + γ) + (m-1)α' + (m-1)/m n/d (β' + γ)"},
    // All-reduce.
    CatalogueRow{Allreduce, Mst, [](const Options& o) { return reduce_then(kMstBroadcast(o)); },
                 there_and_back<f::tree_broadcast>, "2Lα + L n(2β + γ)"},
    CatalogueRow{Allreduce, Ring, [](const Options& o) { return ring_allreduce(o.ranks); },
                 there_and_back<f::ring_allgather>, "2(p-1)α + (p-1)/p n(2β + γ)"},
    CatalogueRow{
        Allreduce, RecursiveDoubling, [](const Options& o) { return doubling_allreduce(o.ranks); },
        f::doubling_allreduce, "log2 q (α + nβ + nγ), q = 2^⌊log2 p⌋ (q < p: + 2α + 2nβ + nγ)"},
    CatalogueRow{Allreduce, RecursiveHalving,
                 [](const Options& o) { return halving_allreduce(o.ranks); }, f::halving_allreduce,
                 "2log2 q α + (q-1)/q n(2β + γ), q = 2^⌊log2 p⌋ (q < p: + 2α + 2nβ + nγ)"},
    CatalogueRow{Allreduce, Bruck,
                 [](const Options& o) {
                   const Schedule gather = bruck_allgather(o.ranks);
                   return relabelled(then(reversed(gather), gather), Allreduce);
                 },
                 there_and_back<f::tree_scatter>, "2Lα + (p-1)/p n(2β + γ)"},
    CatalogueRow{Allreduce, Chain, [](const Options& o) { return reduce_then(kChainBroadcast(o)); },
                 there_and_back<f::chain_broadcast>, "(p-2+k)(2α + 2nβ/k + nγ/k)"},
    CatalogueRow{Allreduce, Flat, [](const Options& o) { return reduce_then(kFlatBroadcast(o)); },
                 there_and_back<f::flat_broadcast>, "(p-1)(2α + 2nβ + nγ)"},
    CatalogueRow{Allreduce, Naive, [](const Options& o) { return naive_allreduce(o.ranks); },
                 f::naive_allreduce, "p(p-1)(α + nβ + nγ)"},
    CatalogueRow{Allreduce, WholeRing, [](const Options& o) { return whole_ring(o.ranks); },
                 f::whole_ring_allreduce, "(p-1)(α + nβ + nγ)"},
    CatalogueRow{
        Allreduce, BinaryTree, [](const Options& o) { return reduce_then(kBinaryBroadcast(o)); },
        there_and_back<f::binary_tree_broadcast>, "m(2α + 2nβ + nγ), m = 2⌊log2 p⌋ or one less"},
    CatalogueRow{
        Allreduce, DoubleTree, [](const Options& o) { return reduce_then(kDoubleBroadcast(o)); },
        there_and_back<f::double_tree_broadcast>, "(D-2+2k)(2α + n(2β + γ)/(2k)), D = depth"},
    CatalogueRow{Allreduce, TwoLevel,
                 [](const Options& o) { return two_level_allreduce(o.ranks, o.ranks_per_node); },
                 f::two_level_allreduce,
                 "2(d-1)α + (d-1)/d n(2β + γ) + 2(m-1)α' + (m-1)/m n/d (2β' + γ)"},
    // All-to-all.
    CatalogueRow{Alltoall, Pairwise, [](const Options& o) { return pairwise_alltoall(o.ranks); },
                 f::ring_allgather, "(p-1)α + (p-1)/p nβ"},
    CatalogueRow{Alltoall, Bruck, [](const Options& o) { return bruck_alltoall(o.ranks); },
                 f::bruck_alltoall, "Lα + L n/2 β (p = 2^k)"},
    CatalogueRow{Alltoall, TwoLevel,
                 [](const Options& o) { return two_level_alltoall(o.ranks, o.ranks_per_node); },
                 f::two_level_alltoall, "(d-1)α + (d-1)/d nβ + (m-1)α' + (m-1)/m nβ'"},
    // Barrier: an all-reduce of nothing, or dissemination.
    CatalogueRow{
        Barrier, Mst, [](const Options& o) { return as_barrier(reduce_then(kMstBroadcast(o))); },
        [](const Options& o) { return f::latency_only(there_and_back<f::tree_broadcast>(o)); },
        "2Lα"},
    CatalogueRow{Barrier, RecursiveDoubling,
                 [](const Options& o) { return as_barrier(doubling_allreduce(o.ranks)); },
                 [](const Options& o) { return f::latency_only(f::doubling_allreduce(o)); },
                 "log2 q α, q = 2^⌊log2 p⌋ (q < p: + 2α)"},
    CatalogueRow{Barrier, Bruck, [](const Options& o) { return dissemination_barrier(o.ranks); },
                 [](const Options& o) { return f::latency_only(f::tree_scatter(o)); }, "Lα"},
    CatalogueRow{
        Barrier, Flat, [](const Options& o) { return as_barrier(reduce_then(kFlatBroadcast(o))); },
        [](const Options& o) { return f::latency_only(there_and_back<f::flat_broadcast>(o)); },
        "2(p-1)α"},
    CatalogueRow{Barrier, BinaryTree,
                 [](const Options& o) { return as_barrier(reduce_then(kBinaryBroadcast(o))); },
                 [](const Options& o) {
                   return f::latency_only(there_and_back<f::binary_tree_broadcast>(o));
                 },
                 "2mα, m = 2⌊log2 p⌋ or one less"},
    CatalogueRow{Barrier, TwoLevel,
                 [](const Options& o) { return two_level_barrier(o.ranks, o.ranks_per_node); },
                 f::two_level_barrier, "2L(d)α + L(m)α'"},
};

/// The divisor of p nearest to its square root.
Rank middle_divisor(Rank p) {
  for (Rank d = static_cast<Rank>(std::sqrt(static_cast<double>(p))); d > 1; --d) {
    if (p % d == 0) {
      return d;
    }
  }
  return p;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::Usage, message);
}

}  // namespace

std::string_view to_text(Algorithm algorithm) {
  return row_of(algorithm).name;
}

const AlgorithmProperties& properties(Algorithm algorithm) {
  return row_of(algorithm).properties;
}

std::span<const Algorithm> all_algorithms() {
  static constexpr auto kAll = [] {
    std::array<Algorithm, kAlgorithms.size()> all{};
    std::ranges::transform(kAlgorithms, all.begin(), &AlgorithmRow::algorithm);
    return all;
  }();
  return kAll;
}

Algorithm parse_algorithm(std::string_view text) {
  std::vector<std::string> names;
  for (const AlgorithmRow& row : kAlgorithms) {
    if (row.name == text) {
      return row.algorithm;
    }
    names.emplace_back(row.name);
  }
  refuse(unknown_name("algorithm", text, names));
}

std::vector<Algorithm> algorithms_for(Operation operation) {
  std::vector<Algorithm> out;
  for (const CatalogueRow& row : kCatalogue) {
    if (row.operation == operation) {
      out.push_back(row.algorithm);
    }
  }
  return out;
}

std::span<const CatalogueRow> catalogue() {
  return kCatalogue;
}

const CatalogueRow& find_row(Operation operation, Algorithm algorithm) {
  std::vector<std::string> others;
  for (const CatalogueRow& row : kCatalogue) {
    if (row.operation != operation) {
      continue;
    }
    if (row.algorithm == algorithm) {
      return row;
    }
    others.emplace_back(to_text(row.algorithm));
  }
  refuse(fmt::format("{} does not do {}; these do: {}", to_text(algorithm), to_text(operation),
                     list_words(others, "and")));
}

BuildOptions checked_options(Operation operation, Algorithm algorithm, BuildOptions o) {
  constexpr Rank kMaxRanks = AlgorithmProperties{}.max_ranks;
  const AlgorithmProperties& has = properties(algorithm);
  if (o.ranks < 1 || o.ranks > kMaxRanks) {
    refuse(fmt::format("{} ranks; there must be 1 to {}", o.ranks, kMaxRanks));
  }
  if (o.root < 0 || o.root >= o.ranks) {
    refuse(fmt::format("invalid root {}; with {} ranks it must be 0 to {}", o.root, o.ranks,
                       o.ranks - 1));
  }
  if (o.root != 0 && !has_root(operation)) {
    refuse(fmt::format("{} has no root; leave it out", to_text(operation)));
  }
  if (o.segments < 1 || o.segments > kMaxSegments) {
    refuse(fmt::format("{} segments; there must be 1 to {}", o.segments, kMaxSegments));
  }
  if (has.segmented && o.segments * (o.ranks - 1) > kMaxPipelineMessages) {
    refuse(fmt::format("{} segments to {} ranks are more than {} messages; take fewer segments",
                       o.segments, o.ranks, kMaxPipelineMessages));
  }
  if (o.ranks > has.max_ranks) {
    refuse(fmt::format("{} sends p(p-1) whole vectors; {} ranks are more than its limit of {}",
                       to_text(algorithm), o.ranks, has.max_ranks));
  }
  if (has.two_level) {
    o.ranks_per_node = o.ranks_per_node == 0 ? middle_divisor(o.ranks) : o.ranks_per_node;
    if (o.ranks_per_node < 1 || o.ranks % o.ranks_per_node != 0) {
      refuse(fmt::format(
          "two-level needs nodes of equal size: {} ranks do not divide into nodes of {}", o.ranks,
          o.ranks_per_node));
    }
  }
  return o;
}

Schedule build(Operation operation, Algorithm algorithm, const BuildOptions& options) {
  const CatalogueRow& row = find_row(operation, algorithm);
  Schedule schedule = row.build(checked_options(operation, algorithm, options));
  schedule.algorithm = to_text(algorithm);
  return schedule;
}

Formula formula(Operation operation, Algorithm algorithm, const BuildOptions& options) {
  return find_row(operation, algorithm).formula(checked_options(operation, algorithm, options));
}

std::string_view formula_text(Operation operation, Algorithm algorithm) {
  return find_row(operation, algorithm).text;
}

}  // namespace trireme
