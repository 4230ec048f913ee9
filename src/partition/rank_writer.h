// The order in which one rank runs its work, defined once: leaves, then the tasks of its row of the pipeline table, each
// with its receives, its turns, and the all-reduces that they deferred; then updates and outputs. A RankSink decides what
// a node becomes: lower() makes the graph of the rank, outline_at() as much of it as memory depends on. Callable from any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "partition/buckets.h"
#include "partition/messages.h"
#include "partition/placed.h"
#include "partition/run_order.h"
#include "trireme/rank_graph.h"

namespace trireme::partition {

/// What all ranks of a plan share.
struct SharedOrder {
  const Placed& placed;
  const PipelineTable& table;
  const RunOrder& order;
  const Messages& messages;
};

/// Makes the nodes of one rank, in the order of the calls. Every value is one that it returned. Those that a call names by
/// copy and micro-batch m (-1: in none) are the rank's shards.
class RankSink {
 public:
  RankSink() = default;
  RankSink(const RankSink&) = delete;
  RankSink& operator=(const RankSink&) = delete;
  virtual ~RankSink() = default;

  /// Of the nodes that follow.
  virtual void set_phase(Phase phase) = 0;
  virtual void set_block(std::int32_t block) = 0;

  /// A parameter or state.
  virtual ValueId leaf(CopyId id) = 0;
  /// An input: the shards of all micro-batches, and one of them.
  virtual ValueId input(CopyId id) = 0;
  virtual ValueId input_part(CopyId id, int m, ValueId all) = 0;

  virtual void send(const Message& message, ValueId value) = 0;
  /// `m` is the micro-batch of the value.
  virtual ValueId receive(const Message& message, int m) = 0;

  /// The outputs of a step that has a node.
  virtual std::vector<ValueId> compute(const Turn& turn, int m,
                                       const std::vector<ValueId>& inputs) = 0;
  /// Any resharding but an all-reduce.
  virtual ValueId reshard(const PlacedStep& step, int m, ValueId x) = 0;

  [[nodiscard]] virtual std::int64_t bytes_of(ValueId value) const = 0;
  /// Reduces the members of a bucket together. Passes on each sum, with its position, as soon as it exists.
  virtual void all_reduce(const Bucket& bucket,
                          const std::function<void(std::size_t, ValueId)>& done) = 0;

  /// Two terms of a copy, along micro-batches or copies of the model.
  virtual ValueId merge(CopyId id, Merge merge, ValueId a, ValueId b) = 0;
  /// The parts of a copy from all micro-batches, along the dimension.
  virtual ValueId concat(CopyId id, int dimension, const std::vector<ValueId>& parts) = 0;
  virtual ValueId scale(ValueId x, double factor) = 0;
  /// Of an output of every update, by how many examples each includes.
  virtual ValueId mean(const std::vector<ValueId>& values,
                       const std::vector<std::int64_t>& weights) = 0;

  /// The value is the leaf's next one.
  virtual void update(ValueId leaf, ValueId value) = 0;
  /// The k-th output of the graph.
  virtual void output(std::size_t k, ValueId value) = 0;
};

/// Writes all that the rank at this place runs. Throws Error(Usage) if a node needs several micro-batches, or the update of
/// several stages, that the table does not provide at the same time.
void write_rank(const SharedOrder& shared, const RankPlace& place, RankSink& sink);

}  // namespace trireme::partition
