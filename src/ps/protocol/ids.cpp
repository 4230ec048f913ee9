#include "ps/protocol/ids.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/enum_names.h"

namespace trireme::ps {

std::string to_text(NodeId node) {
  const auto value = static_cast<std::uint64_t>(node);
  if (node == NodeId::Coordinator) {
    return "the coordinator";
  }
  if (is_worker(node)) {
    return fmt::format("worker {:x}", value & ~kFirstWorker);
  }
  const std::uint64_t reactor = reactor_number(node);
  return reactor == 0 ? fmt::format("server {}", server_number(node))
                      : fmt::format("server {}.{}", server_number(node), reactor);
}

std::string_view to_text(ServerCondition condition) {
  static constexpr auto kNames =
      enum_names<ServerCondition>("alive", "is leaving", "has left", "is silent");
  return kNames[condition];
}

std::size_t View::processes() const {
  std::set<std::uint64_t> numbers;
  for (const Member& member : chain) {
    numbers.insert(server_number(member.server));
  }
  return numbers.size();
}

bool View::has_member(NodeId server) const {
  return std::ranges::find(chain, server, &Member::server) != chain.end();
}

}  // namespace trireme::ps
