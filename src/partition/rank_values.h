// The values of one rank while its graph is built: leaves, shards of inputs, computed values, and messages from and to
// other places of the pipeline. One thread at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "partition/messages.h"
#include "partition/placed.h"
#include "partition/run_order.h"
#include "trireme/graph.h"
#include "trireme/pipeline.h"
#include "trireme/rank_graph.h"

namespace trireme::partition {

/// Throws Error(Usage): the table reads the copy before it exists.
[[noreturn]] void refuse_missing(const Placed& placed, const PipelineTable& table, CopyId id);
/// Throws Error(Usage): the table cannot merge the copy over micro-batches.
[[noreturn]] void refuse_merge(const Placed& placed, const PipelineTable& table, CopyId id);

class RankValues {
 public:
  /// All must outlive this object.
  RankValues(const Placed& placed, const RankPlace& place, const PipelineTable& table,
             const RunOrder& order, GraphBuilder& builder);

  /// Adds the parameters and states of this rank's stages and sends them to their readers elsewhere.
  void add_leaves();
  /// Posts receives for everything that a task, numbered as in the table, first reads from other places.
  void receive_for(int task);

  /// An instance of a copy. Throws Error(Usage) if it does not exist yet.
  ValueId get(CopyId id, int number);
  /// The term of a sum that a copy of the model has.
  [[nodiscard]] ValueId get_part(const Instance& what) const { return made_.at(what); }
  /// Whether it comes from, or goes to, another place.
  [[nodiscard]] bool is_received(const Instance& what) const { return received_.contains(what); }
  [[nodiscard]] bool is_sent(const Instance& what) const {
    return !messages_.sent(place_.pipe, what).empty();
  }
  /// Records that it exists, and sends it to its readers.
  void define(const Instance& what, ValueId made);

  /// A slice even if it is all of x, which other ranks do not have: the names of values are the same on all ranks.
  ValueId slice(ValueId x, std::size_t dimension, std::int64_t begin, std::int64_t length);

  /// Of this rank, in micro-batch m (-1: in none).
  [[nodiscard]] std::vector<int> coordinates(int m) const;
  [[nodiscard]] bool is_mine(int stage) const { return order_.has_stage(place_.pipe, stage); }
  /// The placements of this rank's inputs, parameters and states.
  [[nodiscard]] const std::map<std::string, Placement>& stored() const { return stored_; }

 private:
  [[nodiscard]] std::int64_t rank_of(int pipe) const {
    return place_.pipe_ranks.at(position_of(pipe));
  }
  void send(const Instance& what, ValueId made);
  ValueId receive(const Message& message);
  ValueId input_leaf(CopyId id);
  ValueId input_part(CopyId id, int m);
  [[nodiscard]] std::int64_t part_length(const Copy& one, std::size_t dimension, int m) const;

  const Placed& placed_;
  const RankPlace& place_;
  const PipelineTable& table_;
  const RunOrder& order_;
  GraphBuilder& builder_;
  Messages messages_;
  std::map<Instance, ValueId> made_;
  std::set<Instance> received_;
  std::map<CopyId, ValueId> inputs_;
  std::map<std::string, Placement> stored_;
};

}  // namespace trireme::partition
