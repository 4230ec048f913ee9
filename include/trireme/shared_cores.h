// How the ranks of a host share its cores. A plain value.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme::simulate {

/// On which cores ranks start, if there are more of them: on all cores in turn, or neighboring ranks on the same one.
enum class CorePlacement : std::uint8_t { Alternating, Neighbors };
/// "alternating", "neighbors"
[[nodiscard]] std::string_view to_text(CorePlacement placement);

/// Ranks of one host share its cores: those that compute use `threads` each, those that communicate one each. Ranks
/// that find no core free wait for one, at most until another's turn ends.
struct SharedCores {
  int cores = 1;
  int threads = 1;
  double speedup_alone = 1;  ///< how much faster a rank is while the others use no core
  /// Seconds that a rank computes while others wait for its core: the timer tick of Linux at 250 Hz, its usual setting.
  double turn = 4e-3;
  CorePlacement placement = CorePlacement::Alternating;
};

}  // namespace trireme::simulate
