#include "operation.h"

#include <algorithm>
#include <string>

namespace peers {
namespace {

constexpr std::array<std::string_view, kOperations.size()> kNames{
    "all-reduce", "reduce-scatter", "all-gather", "broadcast",
    "all-to-all", "reduce",         "gather",     "scatter"};

bool is_cut(Operation operation) {
  return operation != Operation::Allreduce && operation != Operation::Broadcast &&
         operation != Operation::Reduce;
}

std::string without_hyphens(std::string_view text) {
  std::string result(text);
  std::erase(result, '-');
  return result;
}

}  // namespace

std::string_view to_text(Operation operation) {
  return kNames.at(static_cast<std::size_t>(operation));
}

std::optional<Operation> parse_operation(std::string_view text) {
  const auto* found = std::ranges::find_if(kOperations, [&](Operation operation) {
    return without_hyphens(to_text(operation)) == without_hyphens(text);
  });
  return found == kOperations.end() ? std::nullopt : std::optional(*found);
}

std::int64_t elements(Operation operation, std::int64_t bytes, int ranks) {
  const std::int64_t whole =
      std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(sizeof(float)));
  return is_cut(operation) ? (whole + ranks - 1) / ranks * ranks : whole;
}

std::int64_t input_elements(const Task& task) {
  switch (task.operation) {
    case Operation::Broadcast:
      return 0;
    case Operation::Allgather:
    case Operation::Gather:
      return task.block();
    case Operation::Scatter:
      return task.is_root() ? task.count : 0;
    default:
      return task.count;
  }
}

std::int64_t output_elements(const Task& task) {
  switch (task.operation) {
    case Operation::ReduceScatter:
    case Operation::Scatter:
      return task.block();
    case Operation::Gather:
      return task.is_root() ? task.count : 0;
    default:  // Reduce, too: Gloo needs the space on every rank
      return task.count;
  }
}

}  // namespace peers
