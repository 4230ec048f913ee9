#include "ps/protocol/shard_state.h"

#include <algorithm>
#include <cstring>

#include "base/indexed_vector.h"
#include "ps/protocol/bytes.h"
#include "ps/protocol/fault.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

template <class T>
void put(std::string& out, const T& value) {
  ByteWriter writer(out);
  writer(value);
}

std::string_view take(std::string_view& bytes, std::size_t size) {
  if (size > bytes.size()) {
    throw Error(ErrorKind::Input, "malformed snapshot: it ends early");
  }
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

template <class T>
T get(std::string_view& bytes) {
  T value{};
  std::memcpy(&value, take(bytes, sizeof(T)).data(), sizeof(T));
  return value;
}

void put_floats(std::string& out, std::span<const float> floats) {
  out.append(reinterpret_cast<const char*>(floats.data()), floats.size_bytes());
}

void get_floats(std::string_view& bytes, std::span<float> into) {
  const std::string_view taken = take(bytes, into.size_bytes());
  if (!into.empty()) {
    std::memcpy(into.data(), taken.data(), taken.size());
  }
}

}  // namespace

TableShard::TableShard(const KnownTable& table, KeyRange range)
    : table_(table), range_(range), state_per_key_(table.update->state_per_key(table.spec.width)) {
  if (is_dense()) {
    grow(range.size());
  }
}

void TableShard::grow(std::size_t rows) {
  row_count_ = rows;
  values_.resize(rows * table_.spec.width);
  state_.resize(rows * state_per_key_);
}

TableShard::Row TableShard::rows(std::size_t first, std::size_t count) {
  const std::size_t width = table_.spec.width;
  return {std::span(values_).subspan(first * width, count * width),
          std::span(state_).subspan(first * state_per_key_, count * state_per_key_)};
}

/// The row of a key; a sparse table adds it.
std::size_t TableShard::row_of(Key key) {
  if (is_dense()) {
    return key - range_.begin;
  }
  const auto [at, is_new] = rows_.try_emplace(key, row_count_);
  if (is_new) {
    grow(row_count_ + 1);
  }
  return at->second;
}

void TableShard::apply(const KeySet& keys, std::span<const float> gradient) {
  const std::size_t width = table_.spec.width;
  if (is_dense() && keys.list.empty()) {
    const Row row = rows(keys.begin - range_.begin, keys.count());
    return table_.update->apply(
        {.width = width, .values = row.values, .state = row.state, .gradient = gradient});
  }
  for (std::size_t i = 0; i < keys.count(); ++i) {
    const Row row = rows(row_of(keys.list.empty() ? keys.begin + i : keys.list[i]), 1);
    table_.update->apply({.width = width,
                          .values = row.values,
                          .state = row.state,
                          .gradient = gradient.subspan(i * width, width)});
  }
}

Values TableShard::read(const KeySet& keys) {
  if (is_dense() && (keys.list.empty() || keys.count() == 1)) {
    const Key first = keys.list.empty() ? keys.begin : keys.list[0];
    return Values::borrow(rows(first - range_.begin, keys.count()).values);
  }
  const std::size_t width = table_.spec.width;
  auto buffer = std::make_shared<FloatBuffer>(keys.count() * width);
  for (std::size_t i = 0; i < keys.count(); ++i) {
    const Key key = keys.list.empty() ? keys.begin + i : keys.list[i];
    const std::span<float> into = buffer->view().subspan(i * width, width);
    const auto at = is_dense() ? rows_.end() : rows_.find(key);
    if (!is_dense() && at == rows_.end()) {
      std::ranges::fill(into, 0.0F);
    } else {
      std::ranges::copy(rows(is_dense() ? key - range_.begin : at->second, 1).values, into.begin());
    }
  }
  return Values::share(std::move(buffer), keys.count() * width);
}

// Rows in order; before that, for sparse tables, the key of each row.
void TableShard::encode(std::string& out) const {
  put(out, static_cast<std::uint64_t>(row_count_));
  if (!is_dense()) {
    std::vector<Key> keys(row_count_);
    for (const auto& [key, row] : rows_) {
      keys[row] = key;
    }
    out.append(reinterpret_cast<const char*>(keys.data()), keys.size() * sizeof(Key));
  }
  put_floats(out, values_);
  put_floats(out, state_);
}

void TableShard::decode(std::string_view& bytes) {
  const auto count = get<std::uint64_t>(bytes);
  const bool possible =
      is_dense() ? count == row_count_ : count <= bytes.size() / (sizeof(Key) + sizeof(float));
  if (!possible) {
    throw Error(ErrorKind::Input,
                "malformed snapshot: table '" + table_.spec.name + "' has another number of keys");
  }
  rows_.clear();
  for (std::size_t row = 0; !is_dense() && row < count; ++row) {
    rows_[get<Key>(bytes)] = row;
  }
  grow(count);
  get_floats(bytes, values_);
  get_floats(bytes, state_);
}

Sequence ShardState::last(NodeId worker) const {
  const auto at = sequences_.find(worker);
  return at == sequences_.end() ? 0 : at->second;
}

bool ShardState::has(TableId table, const KeySet& keys) const {
  const std::size_t id = position_of(table);
  if (id >= known_->size()) {
    return false;
  }
  const KeyRange range = shard_range((*known_)[id].spec.keys, shard_, shard_count_);
  if (keys.list.empty()) {
    return range.begin <= keys.begin && keys.begin <= keys.end && keys.end <= range.end;
  }
  return std::ranges::all_of(keys.list, [&](Key key) { return range.contains(key); });
}

bool ShardState::fits(const Push& push) const {
  return has(push.table, push.keys) &&
         push.values.size() == push.keys.count() * (*known_)[position_of(push.table)].spec.width;
}

TableShard& ShardState::table(TableId id) {
  const std::size_t number = position_of(id);
  if (tables_.size() <= number) {
    tables_.resize(number + 1);
  }
  if (!tables_[number]) {
    const KnownTable& known = (*known_)[number];
    tables_[number] =
        std::make_unique<TableShard>(known, shard_range(known.spec.keys, shard_, shard_count_));
  }
  return *tables_[number];
}

void ShardState::apply(const Push& push) {
  table(push.table).apply(push.keys, push.values.view());
  sequences_[push.worker] = push.sequence;
  ++applied_;
}

Values ShardState::read(TableId id, const KeySet& keys) {
  return table(id).read(keys);
}

std::string ShardState::encode() const {
  std::string out;
  put(out, applied_);
  const bool lost = planted(Fault::SnapshotWithoutSequences);
  put(out, lost ? std::uint64_t{0} : static_cast<std::uint64_t>(sequences_.size()));
  for (const auto& [worker, sequence] : sequences_) {
    if (!lost) {
      put(out, worker);
      put(out, sequence);
    }
  }
  put(out, static_cast<std::uint64_t>(tables_.size()));
  for (const auto& table : tables_) {
    put(out, table != nullptr);
    if (table) {
      table->encode(out);
    }
  }
  return out;
}

void ShardState::decode(std::string_view bytes) {
  applied_ = get<Index>(bytes);
  sequences_.clear();
  for (auto left = get<std::uint64_t>(bytes); left > 0; --left) {
    const auto worker = get<NodeId>(bytes);
    sequences_[worker] = get<Sequence>(bytes);
  }
  tables_.clear();
  const auto count = get<std::uint64_t>(bytes);
  if (count > known_->size()) {
    throw Error(ErrorKind::Input, "malformed snapshot: it has tables that do not exist");
  }
  for (std::uint64_t id = 0; id < count; ++id) {
    if (get<char>(bytes) != 0) {
      table(static_cast<TableId>(id)).decode(bytes);
    }
  }
  if (!bytes.empty()) {
    throw Error(ErrorKind::Input, "malformed snapshot: it is too long");
  }
}

}  // namespace trireme::ps
