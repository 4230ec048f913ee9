// ControlKind: short messages that worlds send each other, beside those of operations.
#pragma once

#include <cstdint>

namespace trireme::comm {

enum class ControlKind : std::uint64_t {
  Inquiry = 1,  ///< "I wait in this call": a Record; answered if the answer differs
  Answer,       ///< a Record
  Fail,         ///< "I give this group up": why
  GivenUp,      ///< "I no longer talk to you: I had no sign of life from you"
  Agreement,    ///< an AgreementMessage
  Goodbye,      ///< "I leave the world"
  Farewell,     ///< "I know, and send nothing more"
  Exchange,     ///< a contribution to an exchange
  Beat,         ///< "I live"
};

}  // namespace trireme::comm
