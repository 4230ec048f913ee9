#include "cli/bench_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/compare.h"
#include "cli/parsed.h"
#include "trireme/collective.h"
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
      refuse(fmt::format("'{}' is no factor; it must be a whole number of at least 2",
                         rest.substr(colon + 1)));
    }
    factor = static_cast<double>(*given);
  }
  if (first.count < 1 || last < first) {
    refuse(
        fmt::format("'{}' is no range of sizes; write FIRST..LAST, rising from at least 1", text));
  }
  return size_range(first, last, factor);
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

std::vector<Method> every_method(const BenchPlan& plan, Operation operation) {
  std::vector<Method> methods{Method{}};
  if (sees_memory(plan)) {
    methods.push_back(Method::direct());
  }
  for (const Algorithm algorithm : algorithms_for(operation)) {
    methods.push_back(Method::scheduled(algorithm));
  }
  return methods;
}

std::vector<Method> parse_methods(const BenchPlan& plan, const std::string& text) {
  std::vector<Method> methods;
  for (const std::string_view word : split(text, ',')) {
    const Method method = parse_method(trim(word));
    if (method.kind == Method::Kind::Direct && !sees_memory(plan)) {
      refuse("direct needs ranks that see one another's memory; use --transport shm or in-process");
    }
    methods.push_back(method);
  }
  return methods;
}

std::int64_t elements_of(const BenchPlan& plan, Operation operation, Bytes bytes) {
  const Bytes element = size_of(plan.dtype);
  if (bytes.count % element.count != 0) {
    refuse(fmt::format("{} bytes are no whole number of {} elements ({} bytes each)", bytes.count,
                       to_text(plan.dtype), element.count));
  }
  const std::int64_t count = bytes.count / element.count;
  return is_cut(operation) ? (count + plan.ranks - 1) / plan.ranks * plan.ranks : count;
}

}  // namespace

bool sees_memory(const BenchPlan& plan) {
  return plan.transport != TransportKind::Tcp && plan.transport != TransportKind::Ucx;
}

bool is_cut(Operation operation) {
  return operation == Operation::Scatter || operation == Operation::Gather ||
         operation == Operation::Allgather || operation == Operation::ReduceScatter ||
         operation == Operation::Alltoall;
}

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

void add_cases(BenchPlan& plan, const BenchWishes& wishes) {
  const std::vector<Operation> operations = parse_operations(wishes.operations);
  const std::vector<Bytes> sizes = parsed("--sizes", wishes.sizes, parse_size_list);
  const bool all = wishes.algorithms == "all";
  const std::vector<Method> asked =
      all ? std::vector<Method>{}
          : parsed("--algorithm", wishes.algorithms,
                   [&](const std::string& text) { return parse_methods(plan, text); });
  for (const Operation operation : operations) {
    const std::vector<Method> possible = every_method(plan, operation);
    std::vector<Method> methods = all ? possible : asked;
    std::erase_if(methods, [&](const Method& method) {
      return std::ranges::find(possible, method) == possible.end();
    });
    const bool is_barrier = operation == Operation::Barrier;
    for (const Bytes bytes : is_barrier ? std::vector{Bytes{0}} : sizes) {
      const std::int64_t count = parsed(
          "--sizes", "", [&](const std::string&) { return elements_of(plan, operation, bytes); });
      for (const Method& method : methods) {
        plan.cases.push_back({operation, bytes, count, method});
      }
    }
  }
  if (plan.cases.empty()) {
    refuse(fmt::format(
        "--algorithm: {} does not do {}; 'trireme schedule --help' lists the algorithms",
        wishes.algorithms, wishes.operations));
  }
}

}  // namespace trireme::cli
