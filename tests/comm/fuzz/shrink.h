// Shrinks a failing sequence to one that is as small and as simple as possible and still fails.
#pragma once

#include <functional>

#include "sequence.h"

namespace trireme::fuzz {

/// Whether this candidate still fails. It is always legal.
using Fails = std::function<bool(const Sequence&)>;

/// Tries to remove steps and ranks, then to make the rest smaller and simpler, until nothing more
/// can be removed or `goes_on` returns false.
[[nodiscard]] Sequence shrink(Sequence failing, const Fails& fails,
                              const std::function<bool()>& goes_on);

}  // namespace trireme::fuzz
