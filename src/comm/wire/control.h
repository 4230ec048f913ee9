// ControlKind: short messages between worlds, in addition to operations' messages.
#pragma once

#include <cstdint>

namespace trireme::comm {

enum class ControlKind : std::uint64_t {
  Inquiry = 1,  ///< "I wait in this call": a Record; answered if the answer differs
  Answer,       ///< a Record
  Fail,         ///< "this group has failed": why
  GivenUp,      ///< "I declared you dead: you were silent"
  Agreement,    ///< an AgreementMessage
  Goodbye,      ///< "I am leaving the world"
  Farewell,     ///< "I know, and send nothing more"
  Exchange,     ///< a contribution to an exchange
  Beat,         ///< "I am alive"
};

}  // namespace trireme::comm
