// The choice of activation recomputation: which activations are kept for the backward and which are recomputed. A plan
// contains it, and recompute() of recompute.h applies it. Plain data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/units.h"

namespace trireme {

enum class RecomputeMode : std::uint8_t {
  None,  ///< keep everything that the backward needs
  Selective,  ///< keep results of matrix products and convolutions; recompute the rest, including attention
  Full,  ///< keep only what leaves the block
};
inline constexpr std::array kRecomputeModes{RecomputeMode::None, RecomputeMode::Selective,
                                            RecomputeMode::Full};
/// "none", "selective", "full"; parse_recompute_mode throws Error(Usage) listing them.
[[nodiscard]] std::string_view to_text(RecomputeMode mode);
[[nodiscard]] RecomputeMode parse_recompute_mode(std::string_view text);

/// The mode of each block.
struct RecomputeOptions {
  RecomputeMode mode = RecomputeMode::None;
  /// Blocks with another mode.
  std::map<std::int32_t, RecomputeMode> blocks{};
};

struct RecomputeChoice {
  RecomputeMode mode = RecomputeMode::None;  ///< of all blocks
  /// Instead of a mode: recompute as little as possible while keeping at most this many bytes of activations.
  std::optional<Bytes> budget{};

  [[nodiscard]] bool any() const { return budget || mode != RecomputeMode::None; }
  friend bool operator==(const RecomputeChoice&, const RecomputeChoice&) = default;
};
/// A mode, or the exact budget: "64MiB", "1000B". parse_recompute takes sizes as parse_bytes() does, and throws
/// Error(Usage) listing the choices.
[[nodiscard]] std::string to_text(const RecomputeChoice& choice);
[[nodiscard]] RecomputeChoice parse_recompute(std::string_view text);

}  // namespace trireme
