#include "trireme/bench_lists.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "trireme/algorithm_comparison.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::measure {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{16} << 30;
constexpr double kUsualFactor = 4;

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::Usage, problem);
}

/// The items between commas, without spaces around them.
std::vector<std::string_view> items_of(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  std::vector<std::string_view> items;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    item.remove_prefix(std::min(item.find_first_not_of(kSpaces), item.size()));
    items.push_back(item.substr(0, item.find_last_not_of(kSpaces) + 1));
    more = comma != std::string_view::npos;
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return items;
}

/// The 2 of "8..64M:2".
double parse_factor(std::string_view text) {
  constexpr int kMaxFactor = 1 << 20;
  int factor = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, factor);
  if (error != std::errc() || stopped != end || factor < 2 || factor > kMaxFactor) {
    refuse(fmt::format("invalid factor '{}': expected an integer of at least 2", text));
  }
  return factor;
}

std::vector<Bytes> parse_range(std::string_view text, std::size_t dots) {
  const std::string_view rest = text.substr(dots + 2);
  const std::size_t colon = rest.find(':');
  const Bytes first = parse_bytes(text.substr(0, dots));
  const Bytes last = parse_bytes(rest.substr(0, colon));
  const double factor =
      colon == std::string_view::npos ? kUsualFactor : parse_factor(rest.substr(colon + 1));
  if (first.count < 1 || last < first) {
    refuse(fmt::format(
        "invalid range of sizes '{}': expected FIRST..LAST, ascending from at least 1", text));
  }
  return simulate::size_range(first, last, factor);
}

}  // namespace

std::vector<Bytes> parse_size_list(const std::string& text) {
  std::vector<Bytes> sizes;
  for (const std::string_view word : items_of(text)) {
    const std::size_t dots = word.find("..");
    const std::vector<Bytes> more =
        dots == std::string_view::npos ? std::vector{parse_bytes(word)} : parse_range(word, dots);
    sizes.insert(sizes.end(), more.begin(), more.end());
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.front().count < 1 || sizes.back().count > kLargestSize) {
    refuse(fmt::format("sizes are 1 byte to {}", to_text(Bytes{kLargestSize})));
  }
  return sizes;
}

std::vector<Operation> parse_operation_list(const std::string& text) {
  if (text == "all") {
    return {all_operations().begin(), all_operations().end()};
  }
  std::vector<std::string> known{"all", "matrix"};
  for (const Operation operation : all_operations()) {
    known.emplace_back(to_text(operation));
  }
  std::vector<Operation> operations;
  for (const std::string_view word : items_of(text)) {
    if (std::ranges::find(known, word) == known.end()) {
      refuse(unknown_name("operation", word, known));
    }
    operations.push_back(parse_operation(word));
  }
  return operations;
}

std::vector<Method> parse_method_list(const std::string& text) {
  std::vector<Method> methods;
  for (const std::string_view word : items_of(text)) {
    methods.push_back(parse_method(word));
  }
  return methods;
}

}  // namespace trireme::measure
