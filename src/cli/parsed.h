// What the commands share about their options.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::cli {

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

/// The names of a table, with spaces between, for a help text.
template <class Items>
std::string names_of(const Items& items) {
  std::string out;
  for (const auto item : items) {
    out += (out.empty() ? "" : " ") + std::string(to_text(item));
  }
  return out;
}

}  // namespace trireme::cli
