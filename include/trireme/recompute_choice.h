// Recomputation as a choice: what the backward needs of the forward is kept, or computed again. A plan says it, and
// recompute() of recompute.h does it. Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/units.h"

namespace trireme {

enum class RecomputeMode : std::uint8_t {
  None,  ///< all that the backward needs is kept
  Selective,  ///< kept are results of matrix products and convolutions; the rest, and attention, is done again
  Full,  ///< only what leaves the block is kept
};
/// "none", "selective", "full"; parse_recompute_mode throws Error(Usage) that lists them.
[[nodiscard]] std::string_view to_text(RecomputeMode mode);
[[nodiscard]] RecomputeMode parse_recompute_mode(std::string_view text);

struct RecomputeChoice {
  RecomputeMode mode = RecomputeMode::None;  ///< of all blocks
  /// As little is computed again as it takes to keep at most so many bytes of activations; instead of a mode.
  std::optional<Bytes> budget{};

  [[nodiscard]] bool any() const { return budget || mode != RecomputeMode::None; }
  friend bool operator==(const RecomputeChoice&, const RecomputeChoice&) = default;
};
/// A mode, or the budget to the byte: "64MiB", "1000B". parse_recompute takes sizes as parse_bytes() does, and
/// throws Error(Usage) that says what could be.
[[nodiscard]] std::string to_text(const RecomputeChoice& choice);
[[nodiscard]] RecomputeChoice parse_recompute(std::string_view text);

}  // namespace trireme
