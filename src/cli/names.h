// Names for help texts.
#pragma once

#include <string>

namespace trireme::cli {

/// The names in a table, separated by spaces, for a help text.
template <class Items>
std::string names_of(const Items& items) {
  std::string out;
  for (const auto item : items) {
    out += (out.empty() ? "" : " ") + std::string(to_text(item));
  }
  return out;
}

}  // namespace trireme::cli
