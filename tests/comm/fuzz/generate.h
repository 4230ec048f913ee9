// Random sequences: legal, free of deadlocks, and the same for the same seed and options.
#pragma once

#include <cstdint>
#include <optional>

#include "sequence.h"

namespace trireme::fuzz {

struct GenerateOptions {
  Transport transport = Transport::InProcess;
  // Absent: the seed decides.
  std::optional<Rank> ranks{};
  std::optional<Sequence::End> end{};
};

[[nodiscard]] Sequence generate(std::uint64_t seed, const GenerateOptions& options);

}  // namespace trireme::fuzz
