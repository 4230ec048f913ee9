#include "ps/protocol/ids.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::ps {

std::string to_text(NodeId node) {
  const auto value = static_cast<std::uint64_t>(node);
  if (node == NodeId::Coordinator) {
    return "the coordinator";
  }
  if (is_worker(node)) {
    return fmt::format("worker {:x}", value & ~kFirstWorker);
  }
  return fmt::format("server {}", value - 1);
}

bool View::has_member(NodeId server) const {
  return std::ranges::find(chain, server, &Member::server) != chain.end();
}

}  // namespace trireme::ps
