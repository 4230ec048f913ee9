// The catalogue: which algorithm does which operation, how its schedule is made and what it costs
// in closed form.
#pragma once

#include <span>
#include <string_view>

#include "trireme/collective.h"
#include "trireme/collective_cost.h"

namespace trireme {

/// The naive exchange has p(p-1) explicit transfers; past this it is a mistake to ask for it.
inline constexpr Rank kMostNaiveRanks = 2048;

/// Chain and double-tree spell out a message for each segment and rank; this bounds their memory.
inline constexpr std::int64_t kMostPipelineMessages = 1 << 22;

struct CatalogueRow {
  Operation operation;
  Algorithm algorithm;
  Schedule (*build)(const BuildOptions&);
  Formula (*formula)(const BuildOptions&);
  std::string_view text;  ///< the formula as people write it
};

[[nodiscard]] std::span<const CatalogueRow> catalogue();

/// The row, or Error(Usage) that lists the algorithms which do the operation.
[[nodiscard]] const CatalogueRow& find_row(Operation operation, Algorithm algorithm);

/// The options with defaults filled in, or Error(Usage) for one that is out of range.
[[nodiscard]] BuildOptions checked_options(Operation operation, Algorithm algorithm,
                                           BuildOptions options);

}  // namespace trireme
