#include "trireme/message.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/text.h"

namespace trireme {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "'";
  while (!text.empty() && out.size() < kLongest) {
    const std::size_t length = utf8_length(text);
    const bool plain = length > 0 && static_cast<unsigned char>(text.front()) >= 0x20;
    out += plain ? text.substr(0, length) : "?";
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + (text.empty() ? "'" : "…'");
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::optional<std::string> nearest = nearest_word(name, known);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : "";
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& known) {
  const std::string meant = did_you_mean(name, known);
  return fmt::format("unknown {} '{}'{}", kind, name,
                     meant.empty() ? "; use " + list_words(known, "or") : meant);
}

}  // namespace trireme
