// Error messages that name the option, the value and the nearest match. For programs that parse options and for the
// libraries' own parsers. Callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/error.h"

namespace trireme {

/// Quotes text for a message: in single quotes, truncated if long, without line breaks or other control characters.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// "unknown command 'shedule'; did you mean schedule?", or "…; use train or tour" if no known name is close.
[[nodiscard]] std::string unknown_name(std::string_view kind, std::string_view name,
                                       const std::vector<std::string>& known);

/// "; did you mean --steps?", or "" if no known name is close.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       const std::vector<std::string>& known);

/// Parses the value of an option; an error message starts with the option's name.
template <class Parse>
auto parsed(std::string_view option, const std::string& value, const Parse& parse) {
  try {
    return parse(value);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(option) + ": " + error.what());
  }
}

/// Throws Error(Usage) with this message unless the condition holds.
inline void require(bool holds, const std::string& otherwise) {
  if (!holds) {
    throw Error(ErrorKind::Usage, otherwise);
  }
}

}  // namespace trireme
