// Shrinks a sequence that fails to one that is as small and as plain as can be and still fails.
#pragma once

#include <functional>

#include "sequence.h"

namespace trireme::fuzz {

/// Whether this candidate still fails. It is legal.
using Fails = std::function<bool(const Sequence&)>;

/// Tries to leave out steps and ranks, then to make what is left smaller and plainer, until nothing
/// more can go or `goes_on` says no.
[[nodiscard]] Sequence shrink(Sequence failing, const Fails& fails,
                              const std::function<bool()>& goes_on);

}  // namespace trireme::fuzz
