// Which nodes read each value: for passes that replace groups of nodes. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/graph.h"

namespace trireme {

class Readers {
 public:
  /// `graph` must outlive this object.
  explicit Readers(const Graph& graph);

  /// By index, in order; a node that reads it twice is there twice.
  [[nodiscard]] const std::vector<std::size_t>& of(ValueId value) const { return readers_[value]; }
  /// Whether an output or an update needs it.
  [[nodiscard]] bool is_kept(ValueId value) const { return kept_[value]; }
  /// The one node that reads the value, if nothing else needs it.
  [[nodiscard]] std::optional<std::size_t> only(ValueId value) const;
  /// Whether nothing but these nodes needs the value.
  [[nodiscard]] bool are_among(ValueId value, const std::vector<std::size_t>& nodes) const;
  /// The node that computes the value; nullopt for a leaf.
  [[nodiscard]] std::optional<std::size_t> maker(ValueId value) const;

 private:
  const Graph& graph_;
  IndexedVector<ValueId, std::vector<std::size_t>> readers_;
  IndexedVector<ValueId, bool> kept_;
};

}  // namespace trireme
