// Messages of the protocol as text, for traces. Pure; any thread.
#pragma once

#include <string>

#include "ps/protocol/message.h"

namespace trireme::ps {

[[nodiscard]] std::string describe(const View& view);
[[nodiscard]] std::string describe(const Message& message);

}  // namespace trireme::ps
