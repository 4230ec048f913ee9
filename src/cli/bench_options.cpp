#include "cli/bench_options.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/parsed.h"
#include "base/text.h"
#include "simulate/algorithm_comparison.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{16} << 30;
constexpr double kUsualFactor = 4;

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::Usage, problem);
}

std::vector<Bytes> parse_range(std::string_view text, std::size_t dots) {
  const std::string_view rest = text.substr(dots + 2);
  const std::size_t colon = rest.find(':');
  const Bytes first = parse_bytes(text.substr(0, dots));
  const Bytes last = parse_bytes(rest.substr(0, colon));
  double factor = kUsualFactor;
  if (colon != std::string_view::npos) {
    const std::optional<std::int64_t> given = parse_integer(rest.substr(colon + 1));
    if (!given || *given < 2 || *given > (1 << 20)) {
      refuse(fmt::format("invalid factor '{}': expected an integer of at least 2",
                         rest.substr(colon + 1)));
    }
    factor = static_cast<double>(*given);
  }
  if (first.count < 1 || last < first) {
    refuse(fmt::format(
        "invalid range of sizes '{}': expected FIRST..LAST, ascending from at least 1", text));
  }
  return simulate::size_range(first, last, factor);
}

std::vector<Operation> parse_operations(const std::string& text) {
  if (text == "all") {
    return {all_operations().begin(), all_operations().end()};
  }
  std::vector<Operation> operations;
  for (const std::string_view word : split(text, ',')) {
    try {
      operations.push_back(parse_operation(trim(word)));
    } catch (const Error& error) {
      refuse(fmt::format("{}, or all", error.what()));
    }
  }
  return operations;
}

std::vector<Method> parse_methods(const measure::BenchPlan& plan, const std::string& text) {
  std::vector<Method> methods;
  for (const std::string_view word : split(text, ',')) {
    const Method method = parse_method(trim(word));
    if (method.kind == Method::Kind::Direct && !measure::sees_memory(plan)) {
      refuse("direct needs ranks that share memory; use --transport shm or in-process");
    }
    methods.push_back(method);
  }
  return methods;
}

measure::BenchSelection parse_lists(const measure::BenchPlan& plan, const BenchLists& lists) {
  measure::BenchSelection selection{.operations = parse_operations(lists.operations),
                                    .sizes = parsed("--sizes", lists.sizes, parse_size_list)};
  if (lists.algorithms != "all") {
    selection.methods = parsed("--algorithm", lists.algorithms,
                               [&](const std::string& text) { return parse_methods(plan, text); });
  }
  return selection;
}

}  // namespace

std::vector<Bytes> parse_size_list(const std::string& text) {
  std::vector<Bytes> sizes;
  for (const std::string_view item : split(text, ',')) {
    const std::string_view word = trim(item);
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

void add_cases(measure::BenchPlan& plan, const BenchLists& lists) {
  const measure::BenchSelection selection = parse_lists(plan, lists);
  parsed("--sizes", lists.sizes, [&](const std::string&) { measure::add_cases(plan, selection); });
  if (plan.cases.empty()) {
    refuse(fmt::format(
        "--algorithm: {} does not do {}; 'trireme schedule --help' lists the algorithms",
        lists.algorithms, lists.operations));
  }
}

}  // namespace trireme::cli
