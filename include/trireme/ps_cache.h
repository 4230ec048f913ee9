// TableCache: a worker's copy of a table, as old as the table's consistency model permits.
//
//   bsp    read from the servers in every iteration
//   ssp    read again only when it might miss an iteration that the model promises: a worker that starts iteration c
//          (the first is 0) sees every push of the iterations before c - s, and its own, which are applied to the copy
//          with the table's update
//   essp   the same promise, but the copy is refreshed in the background after every push
//   async  read from the servers in every iteration
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/parameter_server.h"

namespace trireme::ps {

enum class Reads : std::uint8_t {
  Snapshot,  ///< the values of one shard are from one moment, before the iteration starts
  /// Values are read while the previous iteration computes, each shard's in several requests: other workers' pushes show
  /// in some of them, and this worker's last push may be missing. For async tables.
  Inconsistent,
};
[[nodiscard]] std::string_view to_text(Reads reads);

struct CacheOptions {
  Reads reads = Reads::Snapshot;
  std::shared_ptr<const UpdateRegistry> updates{};  ///< nothing: the built-in ones
};

class TableCache {
 public:
  /// Of a table with this spec, whose layout is dense. The client must outlive the cache. Throws Error(Usage).
  TableCache(ParameterClient& client, TableHandle table, const TableSpec& spec,
             const CacheOptions& options = {});

  /// Makes the copy as new as the iteration requires, which the worker may have started: see
  /// ParameterClient::start_iteration(). Throws Error(Peer) at the deadline.
  void refresh();
  /// The same, from the servers in any case.
  void read();

  /// All keys. Valid until the next call.
  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }
  /// The copy includes every push of the iterations before this one.
  [[nodiscard]] ClockCount clock() const noexcept { return clock_; }
  /// Times that all values were read.
  [[nodiscard]] std::int64_t reads() const noexcept { return reads_; }

  /// Pushes a gradient for all keys, which is copied, and waits until the one before is acknowledged. An eager copy
  /// starts to refresh itself.
  void push(std::span<const float> gradient);
  /// Waits for the last push and for a refresh in progress.
  void flush();

 private:
  /// A refresh in progress.
  struct Reading {
    ClockCount clock = 0;
    std::vector<float> values;
    std::vector<PendingOperation> parts;
  };

  [[nodiscard]] bool is_eager() const { return spec_.consistency == Consistency::Essp; }
  [[nodiscard]] bool is_fresh_enough() const;
  void await_push();
  void begin_reading(std::size_t parts);
  void adopt_reading();
  void apply_locally(std::span<const float> gradient);

  ParameterClient& client_;
  TableHandle table_;
  TableSpec spec_;
  CacheOptions options_;
  std::unique_ptr<const UpdateRule> update_;
  std::vector<float> values_;
  std::vector<float> state_;  ///< of the update, from this worker's own pushes
  std::vector<float> gradient_;
  std::optional<PendingOperation> push_;
  std::unique_ptr<Reading> reading_;
  std::optional<ClockCount> read_at_;
  ClockCount clock_ = 0;
  std::int64_t reads_ = 0;
};

}  // namespace trireme::ps
