#include "trireme/compression.h"

#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Method = Compression::Method;

constexpr auto kMethods =
    enum_names<Method>("none", "top-k", "sign", "ternary", "int8", "fp16", "power");
constexpr int kMaxRank = 1024;

double parse_share(std::string_view text) {
  double share = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (problem != std::errc{} || end != text.data() + text.size() || !(share > 0 && share <= 1)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("'top-k:{}': the share of elements to send must be above 0 and at most 1, "
                    "such as top-k:0.01",
                    text));
  }
  return share;
}

int parse_rank(std::string_view text) {
  const std::optional<std::int64_t> rank = parse_integer(text);
  if (!rank || *rank < 1 || *rank > kMaxRank) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("'power:{}': the rank of the product must be a number from 1 to {}, such as "
                    "power:4",
                    text, kMaxRank));
  }
  return static_cast<int>(*rank);
}

}  // namespace

std::string_view to_text(Method method) {
  return kMethods[method];
}

std::string to_text(const Compression& compression) {
  const std::string_view name = to_text(compression.method);
  switch (compression.method) {
    case Method::TopK:
      return fmt::format("{}:{}", name, compression.share);
    case Method::Power:
      return fmt::format("{}:{}", name, compression.rank);
    default:
      return std::string(name);
  }
}

Compression parse_compression(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::optional<Method> method = kMethods.find(name);
  if (!method) {
    throw Error(ErrorKind::Usage,
                fmt::format("unknown compression '{}'; use none, top-k:SHARE, sign, "
                            "ternary, int8, fp16 or power:RANK",
                            text));
  }
  Compression compression;
  compression.method = *method;
  if (colon == std::string_view::npos) {
    return compression;
  }
  const std::string_view number = text.substr(colon + 1);
  if (*method == Method::TopK) {
    compression.share = parse_share(number);
  } else if (*method == Method::Power) {
    compression.rank = parse_rank(number);
  } else {
    throw Error(ErrorKind::Usage, fmt::format("'{}': {} takes no number", text, name));
  }
  return compression;
}

}  // namespace trireme
