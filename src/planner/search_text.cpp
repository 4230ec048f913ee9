#include "trireme/search_text.h"

#include <array>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trireme/message.h"

namespace trireme {
namespace {

/// A number and what follows it: "16Mtokens".
std::pair<double, std::string> split_number(const std::string& text) {
  try {
    std::size_t used = 0;
    const double number = std::stod(text, &used);
    return {number, text.substr(used)};
  } catch (const std::logic_error&) {
    return {-1, text};
  }
}

}  // namespace

std::int64_t parse_batch(const std::string& text, std::int64_t length) {
  const auto [number, unit] = split_number(text);
  const double tokens = unit == "Mtokens"                        ? 1 << 20
                        : unit == "ktokens" || unit == "Ktokens" ? 1 << 10
                        : unit == "tokens"                       ? 1
                                                                 : 0;
  const double sequences =
      unit.empty() ? number : std::round(number * tokens / static_cast<double>(length));
  require(sequences >= 1 && sequences < 1e12 && sequences == std::floor(sequences),
          fmt::format("{} is not a number of sequences, such as 512, or of tokens, such as "
                      "16Mtokens or 512ktokens",
                      in_quotes(text)));
  return static_cast<std::int64_t>(sequences);
}

double parse_token_count(const std::string& text) {
  const auto [number, unit] = split_number(text);
  const double factor = unit.empty()  ? 1
                        : unit == "T" ? 1e12
                        : unit == "B" ? 1e9
                        : unit == "M" ? 1e6
                                      : 0;
  require(number * factor >= 1 && std::isfinite(number),
          fmt::format("{} is not a number of tokens, such as 15T, 300B or 1e9", in_quotes(text)));
  return number * factor;
}

void fix_axis(SearchSpace& space, const MeshAxis& axis) {
  const std::array<std::pair<std::string_view, std::vector<int>*>, 5> axes{
      {{"data", &space.data},
       {"tensor", &space.tensor},
       {"pipe", &space.pipe},
       {"context", &space.context},
       {"expert", &space.expert}}};
  for (const auto& [name, values] : axes) {
    if (name == axis.name) {
      *values = {axis.size};
      return;
    }
  }
  throw Error(ErrorKind::Usage,
              unknown_name("axis", axis.name, {"data", "tensor", "pipe", "context", "expert"}));
}

}  // namespace trireme
