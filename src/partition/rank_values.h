// The values that one rank has while its graph is built: leaves, parts of inputs, what it computes, and what comes
// from and goes to other places of the pipeline. One thread at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partition/place.h"
#include "trireme/graph.h"
#include "trireme/partition.h"
#include "trireme/pipeline.h"

namespace trireme::partition {

/// The instance of what does not go by micro-batches.
inline constexpr int kOnce = -1;

class RankValues {
 public:
  /// All must live as long.
  RankValues(const Placed& placed, const RankPlace& place, const PipelineTable& table,
             GraphBuilder& builder);

  /// Parameters and states of this rank's stages, sent to those who read them elsewhere.
  void add_leaves();

  /// A copy in micro-batch m, or in the one instance that it has. What another place makes is received; throws
  /// Error(Usage) for what is made here, but not yet.
  ValueId get(CopyId id, int m);
  /// Tells that it is there, and sends it to those who need it.
  void define(CopyId id, int m, ValueId made);

  /// x itself if that is all of it.
  ValueId slice(ValueId x, std::size_t dimension, std::int64_t begin, std::int64_t length);

  [[nodiscard]] int instance_of(CopyId id, int m) const {
    return placed_.is_by_micro(id) ? m : kOnce;
  }
  /// Of this rank, in micro-batch m.
  [[nodiscard]] std::vector<int> coordinates(int m) const;
  [[nodiscard]] bool is_mine(int stage) const { return pipe_of(stage) == place_.pipe; }
  [[nodiscard]] int stage_of(CopyId id) const;
  /// How inputs, parameters and states of this rank lie.
  [[nodiscard]] const std::map<std::string, Placement>& stored() const { return stored_; }

 private:
  [[nodiscard]] const Axes& axes() const { return placed_.wishes.axes; }
  [[nodiscard]] int micro() const { return placed_.wishes.micro; }
  [[nodiscard]] const Copy& copy(CopyId id) const {
    return placed_.copies[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const Value& value(ValueId id) const { return placed_.graph.value(id); }
  [[nodiscard]] int pipe_of(int stage) const { return table_.rank_of(0, stage); }
  [[nodiscard]] bool is_input(CopyId id) const;
  void find_needs();
  [[nodiscard]] std::int64_t tag_of(CopyId id, int instance) const;
  void send(CopyId id, int instance);
  ValueId receive(CopyId id, int instance);
  ValueId input_leaf(CopyId id);
  ValueId input_part(CopyId id, int m);
  [[nodiscard]] std::int64_t part_length(const Copy& one, std::size_t dimension, int m) const;

  const Placed& placed_;
  const RankPlace& place_;
  const PipelineTable& table_;
  GraphBuilder& builder_;
  std::map<CopyId, std::set<int>> needs_;  ///< other places in the pipeline that read it
  std::map<std::pair<CopyId, int>, ValueId> made_;
  std::map<CopyId, ValueId> inputs_;
  std::map<std::string, Placement> stored_;
};

}  // namespace trireme::partition
