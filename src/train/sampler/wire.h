// The protocol between a worker and its master: the worker sends requests, the master replies. Each pair has its own
// group, so that losing a worker is an error in that group only.
#pragma once

#include <array>
#include <cstdint>

#include "trireme/schedule.h"

namespace trireme::train {

/// Ranks in the group of a pair.
inline constexpr Rank kMasterPlace = 0;
inline constexpr Rank kWorkerPlace = 1;

enum class Ask : std::int64_t {
  Take,     ///< at most `number` samples
  Confirm,  ///< the first `number` samples taken
  Leave,    ///< no reply is sent
};
enum class Answer : std::int64_t {
  Given,    ///< a message with `number` samples follows, unless it is 0
  NotYet,   ///< ask again: nothing is available now, but another worker may fail
  Over,     ///< all samples are consumed
  Counted,  ///< the confirmation is recorded
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
