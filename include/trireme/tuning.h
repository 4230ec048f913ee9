// Tuning: the measured best method for each call, with the evidence. `trireme bench --tune` writes one; a World that is
// given one uses its rows, and predicted times otherwise.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm_call.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"
#include "trireme/transport_kind.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// Whether a call's buffers are in each rank's private memory, or in shared memory from World::allocate.
enum class BufferKind : std::uint8_t { Private, Shared };
/// "private", "shared".
[[nodiscard]] std::string_view to_text(BufferKind kind);
/// Throws Error(Usage) that lists the names.
[[nodiscard]] BufferKind parse_buffer_kind(std::string_view text);

/// How long a method took.
struct TuningCandidate {
  Method method{};
  Seconds median{};
  double spread = 0;  ///< from the 10th to the 90th percentile, relative to the median
  int calls = 0;
  friend bool operator==(const TuningCandidate&, const TuningCandidate&) = default;
};

/// Calls of `from` to `to` bytes (inclusive; of the whole vector, or for an all-to-all of what one rank sends) on this
/// many ranks over this transport use `method`.
struct TuningRow {
  Operation operation = Operation::Allreduce;
  Rank ranks = 2;
  TransportKind transport{};  ///< in-process, shm, tcp, …
  BufferKind buffers = BufferKind::Private;
  Bytes from{};
  Bytes to{};
  Method method{};
  Bytes measured{};                           ///< the size at which the candidates were timed
  std::vector<TuningCandidate> candidates{};  ///< may be empty: the row applies without evidence
  friend bool operator==(const TuningRow&, const TuningRow&) = default;
};

struct Tuning {
  std::string machine{};  ///< where it was measured, for display
  std::string date{};
  DType dtype = DType::F32;  ///< measured with this type; rows apply to every type
  std::vector<TuningRow> rows{};

  struct Query {
    Operation operation = Operation::Allreduce;
    Rank ranks = 2;
    TransportKind transport{};
    Bytes bytes{};
  };
  /// The method for a call, or Automatic if no row matches. A rank does not know whether the others' buffers are
  /// shared, so rows for both kinds of buffers match: of several, one that says direct, which works with any buffers,
  /// else the first.
  [[nodiscard]] Method find(const Query& query) const;
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const Tuning& tuning);

/// Extends each row to the geometric means of its size and the next ones measured below and above, for the same
/// operation, ranks, transport and buffers; the first and the last row end at their own size.
void extend_ranges(Tuning& tuning);

/// The `.tuning.json` text. parse_tuning(to_text(t)) == t.
[[nodiscard]] std::string to_text(const Tuning& tuning);
/// Throws Error(Input) that names the line or the field; the result has no problems().
[[nodiscard]] Tuning parse_tuning(std::string_view text);

}  // namespace trireme
