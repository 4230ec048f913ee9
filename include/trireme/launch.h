// launch() for programs whose ranks outlive one another. See comm.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "trireme/comm.h"

namespace trireme {

/// What happens to the other ranks when one is killed or fails.
enum class AfterDeath : std::uint8_t {
  EndOthers,       ///< they have a while to end by themselves, then they are killed
  OthersContinue,  ///< nothing: they notice it and decide, for example to shrink()
};
/// "end others", "others continue".
[[nodiscard]] std::string_view to_text(AfterDeath after_death);

/// As launch() of comm.h. With OthersContinue a rank that was killed by a signal does not count as a failure: returns 0
/// if a rank returned and none ended in another way.
int launch(Rank ranks, const std::function<void(World&)>& body, const WorldOptions& options,
           AfterDeath after_death);

}  // namespace trireme
