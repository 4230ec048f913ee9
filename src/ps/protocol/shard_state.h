// ShardState: what a replica of a shard holds: the values of its keys in each table, and for each worker the sequence
// number of its last push. Applying the same pushes in the same order gives the same state everywhere. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ps/protocol/message.h"
#include "ps/protocol/ring.h"
#include "trireme/ps_update.h"

namespace trireme::ps {

/// A table and its update, as a server knows it.
struct KnownTable {
  TableSpec spec;
  std::shared_ptr<const UpdateRule> update;
};
/// By id: tables are never removed.
using KnownTables = std::vector<KnownTable>;

/// The keys of one table in one shard.
class TableShard {
 public:
  TableShard(const KnownTable& table, KeyRange range);

  void apply(const KeySet& keys, std::span<const float> gradient);
  /// Borrowed if the values are contiguous here, otherwise a copy.
  [[nodiscard]] Values read(const KeySet& keys);

  void encode(std::string& out) const;
  /// Throws Error(Input).
  void decode(std::string_view& bytes);

 private:
  struct Row {
    std::span<float> values;
    std::span<float> state;
  };
  [[nodiscard]] Row rows(std::size_t first, std::size_t count);
  [[nodiscard]] std::size_t row_of(Key key);
  void grow(std::size_t rows);
  [[nodiscard]] bool is_dense() const { return table_.spec.layout == TableLayout::Dense; }

  KnownTable table_;
  KeyRange range_;
  std::size_t state_per_key_;
  std::size_t row_count_ = 0;
  std::vector<float> values_;
  std::vector<float> state_;
  std::unordered_map<Key, std::size_t> rows_;  ///< of sparse tables
};

class ShardState {
 public:
  /// `tables` must outlive it.
  ShardState(ShardId shard, std::uint32_t shard_count, const KnownTables& tables)
      : shard_(shard), shard_count_(shard_count), known_(&tables) {}

  [[nodiscard]] Index applied() const noexcept { return applied_; }
  /// The last push of the worker that was applied; 0 if there is none.
  [[nodiscard]] Sequence last(NodeId worker) const;
  /// Whether the table is known and the keys are in this shard. Values: `floats` of them.
  [[nodiscard]] bool has(TableId table, const KeySet& keys) const;
  [[nodiscard]] bool fits(const Push& push) const;

  /// Requires fits(push) and push.sequence == last(push.worker) + 1.
  void apply(const Push& push);
  /// Requires has(table, keys).
  [[nodiscard]] Values read(TableId table, const KeySet& keys);

  /// The whole state as bytes, and back. Throws Error(Input) if the bytes are not a state of this shard.
  [[nodiscard]] std::string encode() const;
  void decode(std::string_view bytes);

 private:
  [[nodiscard]] TableShard& table(TableId id);

  ShardId shard_;
  std::uint32_t shard_count_;
  const KnownTables* known_;  ///< of the server, which outlives its replicas
  Index applied_ = 0;
  std::unordered_map<NodeId, Sequence> sequences_;
  std::vector<std::unique_ptr<TableShard>> tables_;
};

}  // namespace trireme::ps
