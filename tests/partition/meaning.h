// What the programs of all ranks compute together, found by running them symbolically: the content of a tensor is a
// hash of the op, its attributes and the contents that it read. Two sets of programs with the same meaning compute the
// same, whatever the timing. Shares no code with the verifier.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trireme/program_set.h"

namespace trireme {

/// By rank: the contents of outputs, parameters and states after a step. Nothing: a rank does not finish, or something
/// touches the tensors of communication in flight.
using Meaning = std::vector<std::vector<std::uint64_t>>;
[[nodiscard]] std::optional<Meaning> meaning_of(std::span<const Program> programs,
                                                std::span<const RankGroups> groups);

}  // namespace trireme
