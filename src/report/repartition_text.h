// Repartitions of a matrix as a table and as JSON. Callable from any thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "report/text_style.h"
#include "trireme/repartition.h"
#include "trireme/repartition_run.h"

namespace trireme::report {

struct RepartitionRow {
  predict::Repartition predicted{};
  std::optional<measure::RepartitionRun> run{};  ///< where it was executed
  /// Whether it was not executed, or the result is right and ranks sent the predicted bytes.
  [[nodiscard]] bool is_right() const;
};

/// Requires a row at least, all of the same matrix and ranks.
[[nodiscard]] std::string repartition_text(std::span<const RepartitionRow> rows,
                                           const Terminal& terminal);
/// One object: shape, dtype, ranks, and an array of repartitions.
[[nodiscard]] std::string repartition_json(std::span<const RepartitionRow> rows);

}  // namespace trireme::report
