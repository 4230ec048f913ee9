// Double binary tree: two trees over the ranks besides the root, such that no rank is an inner node of
// both. Each tree carries half of the vector in k segments. A rank then sends and receives one segment
// in every step: full bandwidth at logarithmic depth.
//   about (2 log2 p + 2k) (alpha + n/(2k) beta)
//
// The first tree is the in-order tree over places 1..m (m = p-1): odd places are leaves. The second is the same tree
// with the places mirrored (m even) or shifted by one (m odd), which swaps leaves and inner nodes.
//
// An edge's color, 0 or 1, is the parity of the steps in which it sends. The two edges out of a rank have different
// colors, as do the two edges into a rank. An edge has at most one rival at either end, so the rivals form paths and
// even cycles, and two colors always suffice. An edge sends segment s at its first step + 2s.
//
// Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
#include <array>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "collective/algorithms.h"

namespace trireme {
namespace {

/// An edge of one of the trees. Place 0 is the root of the whole; places 1..m are the other ranks.
struct Edge {
  Rank parent = 0;
  Rank child = 0;
  int tree = 0;
  int colour = -1;
  std::int64_t first_step = 0;
};

/// -1: none.
using EdgeIndex = std::ptrdiff_t;

/// Parents before children, which is also the order in which first steps can be computed.
class TreePair {
 public:
  explicit TreePair(Rank p) : places_(p - 1) {
    for (int tree = 0; tree < 2; ++tree) {
      edge_into_[tree].assign(p, -1);
      add_subtree({0, 1, places_, tree});
    }
    colour_all();
    set_first_steps();
  }

  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_.items(); }

  /// Steps until the first segment of both trees is everywhere.
  [[nodiscard]] std::int64_t depth() const {
    std::int64_t last = 0;
    for (const Edge& edge : edges_) {
      last = std::max(last, edge.first_step + 1);
    }
    return last;
  }

 private:
  struct Subtree {
    Rank parent;  // a place
    Rank low;     // in-order positions low..high
    Rank high;
    int tree;
  };

  /// The place at this in-order position of the tree.
  [[nodiscard]] Rank place_at(Rank position, int tree) const {
    if (tree == 0) {
      return position;
    }
    return places_ % 2 == 0 ? places_ + 1 - position : position % places_ + 1;
  }

  void add_subtree(const Subtree& top) {
    std::vector<Subtree> waiting{top};
    for (std::size_t next = 0; next < waiting.size(); ++next) {
      const Subtree subtree = waiting[next];
      if (subtree.low > subtree.high) {
        continue;
      }
      // The top of low..high is the position with the most trailing zeros.
      const Rank top_position =
          subtree.low - 1 + (Rank{1} << floor_log2(subtree.high - subtree.low + 1));
      const Rank place = place_at(top_position, subtree.tree);
      edge_into_[subtree.tree].at(place) = edges_.count();
      edges_.push_back({subtree.parent, place, subtree.tree});
      waiting.push_back({place, subtree.low, top_position - 1, subtree.tree});
      waiting.push_back({place, top_position + 1, subtree.high, subtree.tree});
    }
  }

  /// The other edge out of this edge's parent, and the other edge into its child; -1 if there is none.
  void find_rivals() {
    IndexedVector<Rank, EdgeIndex> first_out(places_ + 1, -1);
    rivals_.assign(edges_.size(), {-1, -1});
    for (EdgeIndex e = 0; e < edges_.count(); ++e) {
      EdgeIndex& seen = first_out.at(edges_[e].parent);
      if (seen >= 0) {
        rivals_[e][0] = seen;
        rivals_[seen][0] = e;
      }
      seen = e;
      rivals_[e][1] = edge_into_[1 - edges_[e].tree].at(edges_[e].child);
    }
  }

  void colour_all() {
    find_rivals();
    for (EdgeIndex start = 0; start < edges_.count(); ++start) {
      if (edges_[start].colour < 0) {
        edges_[start].colour = 0;
        colour_rivals_of(start);
      }
    }
  }

  /// Alternates colors along the path or cycle of rivals from this edge on.
  void colour_rivals_of(EdgeIndex start) {
    std::vector<EdgeIndex> waiting{start};
    while (!waiting.empty()) {
      const EdgeIndex edge = waiting.back();
      waiting.pop_back();
      for (const EdgeIndex rival : rivals_[edge]) {
        if (rival >= 0 && edges_[rival].colour < 0) {
          edges_[rival].colour = 1 - edges_[edge].colour;
          waiting.push_back(rival);
        }
      }
    }
  }

  /// The first step of an edge is the first of its color after its parent has the segment.
  void set_first_steps() {
    for (Edge& edge : edges_) {
      std::int64_t ready = 0;
      if (edge.parent != 0) {
        ready = edges_[edge_into_[edge.tree].at(edge.parent)].first_step + 1;
      }
      edge.first_step = ready + (ready % 2 == edge.colour ? 0 : 1);
    }
  }

  Rank places_;
  IndexedVector<EdgeIndex, Edge> edges_;
  IndexedVector<int, IndexedVector<Rank, EdgeIndex>> edge_into_{IndexedVector<Rank, EdgeIndex>(),
                                                                {}};  ///< by tree and child
  IndexedVector<EdgeIndex, std::array<EdgeIndex, 2>> rivals_;
};

}  // namespace

Schedule double_tree_broadcast(Rank p, Rank root, std::int64_t segments) {
  Schedule schedule = frame(Operation::Broadcast, p, Layout::Split, 2 * segments, root);
  if (p == 1) {
    return schedule;
  }
  const TreePair trees(p);
  schedule.steps.resize(trees.depth() + 2 * (segments - 1));
  const auto rank_at = [&](Rank place) {
    return static_cast<Rank>((static_cast<std::int64_t>(place) + root) % p);
  };
  for (const Edge& edge : trees.edges()) {
    for (std::int64_t segment = 0; segment < segments; ++segment) {
      schedule.steps[edge.first_step + 2 * segment].transfers.push_back(
          {rank_at(edge.parent),
           rank_at(edge.child),
           Action::Copy,
           {BlockRun{edge.tree * segments + segment, 1, 1}}});
    }
  }
  return schedule;
}

std::int64_t double_tree_depth(Rank p) {
  return p == 1 ? 0 : TreePair(p).depth();
}

}  // namespace trireme
