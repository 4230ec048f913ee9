// The catalog: the algorithms of each operation, with their schedule builders and closed-form
// costs.
#pragma once

#include <span>
#include <string_view>

#include "trireme/collective.h"
#include "trireme/collective_cost.h"

namespace trireme {

/// The naive exchange has p(p-1) explicit transfers; more ranks than this must be a mistake.
inline constexpr Rank kMaxNaiveRanks = 2048;

/// Chain and double-tree list a message for each segment and rank; this bounds their memory.
inline constexpr std::int64_t kMaxPipelineMessages = 1 << 22;

struct CatalogueRow {
  Operation operation;
  Algorithm algorithm;
  Schedule (*build)(const BuildOptions&);
  Formula (*formula)(const BuildOptions&);
  std::string_view text;  ///< the formula in the usual notation
};

[[nodiscard]] std::span<const CatalogueRow> catalogue();

/// The row. Throws Error(Usage) listing the algorithms that implement the operation.
[[nodiscard]] const CatalogueRow& find_row(Operation operation, Algorithm algorithm);

/// The options with defaults filled in. Throws Error(Usage) if one is out of range.
[[nodiscard]] BuildOptions checked_options(Operation operation, Algorithm algorithm,
                                           BuildOptions options);

}  // namespace trireme
