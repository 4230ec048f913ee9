// Words of shell commands, for messages that tell the user what to type. Callable from any thread.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// The text as one word of a shell command: in single quotes if it needs them.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace trireme
