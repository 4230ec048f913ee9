// Options: parsing their values, refusing them by name. Any thread.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

/// Parses the value of an option; an error message starts with the option's name.
template <class Parse>
auto parsed(std::string_view option, const std::string& value, const Parse& parse) {
  try {
    return parse(value);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", option, error.what()));
  }
}

/// Throws Error(Usage) unless it holds.
inline void require(bool holds, const std::string& otherwise) {
  if (!holds) {
    throw Error(ErrorKind::Usage, otherwise);
  }
}

}  // namespace trireme
