#include "plan/selectors.h"

#include <fmt/format.h>

namespace trireme {
namespace {

constexpr std::string_view kBlock = "@block(";

}  // namespace

SelectorRank rank_of(std::string_view selector) {
  if (selector == "*") {
    return SelectorRank::Default;
  }
  return is_pattern(selector) || selector.starts_with(kBlock) ? SelectorRank::Pattern
                                                              : SelectorRank::Name;
}

bool is_pattern(std::string_view selector) {
  return selector.find('*') != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) {
    return name.empty();
  }
  if (pattern.front() != '*') {
    return !name.empty() && name.front() == pattern.front() &&
           matches(pattern.substr(1), name.substr(1));
  }
  for (std::size_t taken = 0;; ++taken) {
    if (matches(pattern.substr(1), name.substr(taken))) {
      return true;
    }
    if (taken == name.size() || name[taken] == '/') {
      return false;
    }
  }
}

std::string block_selector(std::int32_t block) {
  return fmt::format("{}{})", kBlock, block);
}

bool selects(std::string_view selector, const Node& node, const Graph& graph) {
  if (selector.starts_with(kBlock)) {
    return node.phase == Phase::Forward && node.block >= 0 &&
           selector == block_selector(node.block);
  }
  const std::string& name = graph.value(node.outputs.front()).name;
  if (!is_pattern(selector)) {
    return selector == name;
  }
  const bool any_phase = selector.find('/') != std::string_view::npos;
  return (any_phase ? node.phase != Phase::Update : node.phase == Phase::Forward) &&
         matches(selector, name);
}

}  // namespace trireme
