// What a worker and its master say to each other: the worker asks, the master answers. Each pair has a group of its own,
// so that the loss of a worker is an error in that group only.
#pragma once

#include <array>
#include <cstdint>

#include "trireme/schedule.h"

namespace trireme::train {

/// Places in the group of a pair.
inline constexpr Rank kMasterPlace = 0;
inline constexpr Rank kWorkerPlace = 1;

enum class Ask : std::int64_t {
  Take,     ///< at most `number` samples
  Confirm,  ///< the first `number` that I have
  Leave,    ///< there is no answer
};
enum class Answer : std::int64_t {
  Given,    ///< `number` samples follow in a message, if it is not 0
  NotYet,   ///< ask again: there is nothing now, but a worker may be lost
  Over,     ///< all samples are consumed
  Counted,  ///< what was confirmed
};

/// An Ask or Answer, and its number.
using SamplerMessage = std::array<std::int64_t, 2>;

inline SamplerMessage make_message(Ask ask, std::int64_t number = 0) {
  return {static_cast<std::int64_t>(ask), number};
}
inline SamplerMessage make_message(Answer answer, std::int64_t number = 0) {
  return {static_cast<std::int64_t>(answer), number};
}

}  // namespace trireme::train
