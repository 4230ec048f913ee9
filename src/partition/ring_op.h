// An op whose factor is processed in turn by the ranks of an axis: the part of each factor on each rank, the work on
// another rank's part, and the messages between them. ring.h and causal_ring.h build programs from it. Callable from
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/graph.h"
#include "trireme/op.h"
#include "trireme/placement.h"

namespace trireme::partition {

/// The factor that is sharded by one axis and processed in turn; -1 if there is none.
[[nodiscard]] int find_ring(const Factors& factors, std::span<const Placement::Dim> sharding);

struct Ring {
  Signature whole{};
  std::size_t factor = 0;  ///< processed in turn
  std::size_t rows = 0;    ///< another factor that the axis shards, such as queries
  /// By position along the axis: the rank's range of each factor.
  std::vector<std::vector<IndexRange>> ranges{};
  std::vector<int> ranks{};  ///< likewise
  std::size_t index = 0;     ///< the place of this rank
};

/// The parts of each factor that the rank at these coordinates has.
[[nodiscard]] std::vector<IndexRange> ranges_at(const Factors& factors,
                                                std::span<const Placement::Dim> sharding,
                                                const Axes& axes, std::span<const int> coordinates);

/// The ring of a node whose factors are sharded this way, for the rank at these coordinates; by axis, the ranks that
/// share its other ones. Requires find_ring() >= 0.
[[nodiscard]] Ring ring_at(const Signature& whole, std::span<const Placement::Dim> sharding,
                           const Axes& axes, std::vector<int> coordinates,
                           std::span<const std::vector<int>> axis_ranks);

/// The op of a ring, computed piece by piece. Keeps a reference to the ring.
class RingOp {
 public:
  explicit RingOp(const Ring& ring);

  [[nodiscard]] std::size_t places() const { return ring_.ranks.size(); }
  /// Inputs by whether the factor appears in them; outputs in which it does not, which are merged; and in which it does,
  /// which are added.
  [[nodiscard]] const std::vector<std::size_t>& operands() const { return operands_; }
  [[nodiscard]] const std::vector<std::size_t>& others() const { return others_; }
  [[nodiscard]] const std::vector<std::size_t>& merged() const { return merged_; }
  [[nodiscard]] const std::vector<std::size_t>& carried() const { return carried_; }
  [[nodiscard]] const Factors& factors() const { return factors_; }

  /// The ranges of the rank at `place`, with another rank's part of the ring factor instead of its own.
  [[nodiscard]] std::vector<IndexRange> ranges_of(std::size_t place, std::size_t part) const;
  /// Whether any of it remains under a causal mask.
  [[nodiscard]] bool has_work(std::size_t place, std::size_t part) const;
  [[nodiscard]] TensorType input_type(std::size_t k, std::span<const IndexRange> ranges) const;
  [[nodiscard]] TensorType output_type(std::size_t k, std::span<const IndexRange> ranges) const;

  /// Adds the node that computes with these ranges.
  std::vector<ValueId> compute(GraphBuilder& builder, const std::vector<ValueId>& inputs,
                               std::span<const IndexRange> ranges) const;
  /// Merges two sets of results, each in the order of merged(); the first may be empty.
  [[nodiscard]] std::vector<ValueId> merge(GraphBuilder& builder, std::vector<ValueId> so_far,
                                           const std::vector<ValueId>& more) const;

 private:
  [[nodiscard]] Attributes attributes_of(std::span<const IndexRange> ranges) const;

  const Ring& ring_;
  Factors factors_;
  std::vector<std::size_t> operands_, others_, merged_, carried_;
  std::vector<TensorType> outputs_;
};

/// Point-to-point messages between the places of a ring.
class RingMessages {
 public:
  RingMessages(GraphBuilder& builder, const Ring& ring) : builder_(builder), ring_(ring) {}

  void send(ValueId value, std::size_t to, std::int64_t tag, std::vector<ValueId>& sent);
  ValueId receive(const TensorType& type, std::size_t from, std::int64_t tag);
  /// Nothing that follows starts before these sends are done. Leaves `sent` empty.
  void wait_for(std::vector<ValueId>& sent);

 private:
  GraphBuilder& builder_;
  const Ring& ring_;
};

}  // namespace trireme::partition
