// Tables of a parameter server: what their keys hold, how pushes change it, and how far workers may drift apart.
// Values; callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ps {

using Key = std::uint64_t;
/// The number of iterations that a worker has completed.
using ClockCount = std::int64_t;

/// Consistency of a table: when a worker may start its next iteration. ParameterClient::pull() always reads from the
/// servers; a TableCache (ps_cache.h) keeps a copy, as old as the model permits.
enum class Consistency : std::uint8_t {
  Bsp,  ///< bulk synchronous: after all workers have completed the last one
  Ssp,  ///< stale synchronous: if it is at most `staleness` iterations ahead of the slowest worker
  Essp,  ///< eager SSP: the rule of Ssp; a TableCache refreshes its copy in the background after each push
  Async,  ///< always
};
/// "bsp", "ssp", "essp", "async".
[[nodiscard]] std::string_view to_text(Consistency consistency);

/// How a server stores the keys of a table.
enum class TableLayout : std::uint8_t {
  Dense,   ///< an array of all keys; fast for ranges
  Sparse,  ///< only the keys that were pushed; others read as zeros
};
[[nodiscard]] std::string_view to_text(TableLayout layout);

struct TableSpec {
  std::string name;
  Key keys = 0;             ///< keys are 0 to keys - 1
  std::uint32_t width = 1;  ///< floats of each key
  std::string update = "add";
  std::vector<float> parameters{};  ///< of the update
  TableLayout layout = TableLayout::Dense;
  Consistency consistency = Consistency::Async;
  ClockCount staleness = 0;  ///< s of Ssp and Essp
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

/// What is wrong, in words; empty if nothing. Does not check the update's name, which only the servers know.
[[nodiscard]] std::vector<std::string> problems(const TableSpec& spec);

/// How far ahead of the slowest worker one may start an iteration; nothing if there is no bound.
[[nodiscard]] std::optional<ClockCount> staleness_bound(const TableSpec& spec);

/// The clock rule: a worker that has completed `own` iterations may start the next one if own - slowest <= bound.
[[nodiscard]] bool may_start(ClockCount own, ClockCount slowest, std::optional<ClockCount> bound);

}  // namespace trireme::ps
