// Membership: the members of a group. Immutable, so any thread may use it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// A member's place in the group is its rank there; each place has a world rank.
class Membership {
 public:
  /// `context` distinguishes the group's messages from those of other groups. This rank is a
  /// member.
  Membership(std::uint64_t context, std::vector<Rank> world_ranks, Rank own_world_rank)
      : context_(context),
        world_ranks_(std::move(world_ranks)),
        rank_(static_cast<Rank>(std::ranges::find(world_ranks_, own_world_rank) -
                                world_ranks_.begin())) {}

  [[nodiscard]] std::uint64_t context() const { return context_; }
  /// The place of this rank.
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] Rank size() const { return static_cast<Rank>(world_ranks_.size()); }
  [[nodiscard]] const std::vector<Rank>& world_ranks() const { return world_ranks_.items(); }
  [[nodiscard]] Rank world_rank(Rank place) const { return world_ranks_[place]; }
  [[nodiscard]] Rank own_world_rank() const { return world_rank(rank_); }

 private:
  std::uint64_t context_;
  IndexedVector<Rank, Rank> world_ranks_;
  Rank rank_;
};

}  // namespace trireme::comm
