#include "sequence.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace trireme::fuzz {
namespace {

constexpr std::array<std::pair<Transport, std::string_view>, 5> kTransports{{
    {Transport::InProcess, "in-process"},
    {Transport::SharedMemory, "shm"},
    {Transport::Tcp, "tcp"},
    {Transport::Tls, "tls"},
    {Transport::Ucx, "ucx"},
}};

std::string illegal_counts(const Collective& call, std::size_t ranks) {
  const std::size_t wanted = call.operation == Operation::Alltoall ? ranks * ranks : ranks;
  const bool takes_counts =
      call.operation == Operation::Alltoall || call.operation == Operation::Scatter ||
      call.operation == Operation::Gather || call.operation == Operation::Allgather ||
      call.operation == Operation::ReduceScatter;
  if (!call.counts.empty() && (!takes_counts || call.counts.size() != wanted)) {
    return fmt::format("{} counts for a {} of {} ranks", call.counts.size(), name(call.operation),
                       ranks);
  }
  const bool negative = std::ranges::any_of(call.counts, [](std::int64_t n) { return n < 0; });
  return negative || call.count < 0 ? "a negative count" : "";
}

std::string illegal_method(const Collective& call, std::size_t ranks, Transport transport) {
  if (call.method.kind == Method::Kind::Direct && !shares_memory(transport)) {
    return fmt::format("no direct operations over {}", name(transport));
  }
  if (call.method.kind == Method::Kind::Scheduled &&
      !is_legal(call, call.method.algorithm, static_cast<Rank>(ranks))) {
    return fmt::format("no {} by {}", name(call.operation), name(call.method.algorithm));
  }
  return "";
}

std::string illegal_collective(const Collective& call, const Groups& groups, Transport transport) {
  const auto group = groups.find(call.group);
  if (group == groups.end()) {
    return fmt::format("group {} does not exist yet", call.group);
  }
  const std::size_t ranks = group->second.size();
  if (call.sides.size() != ranks) {
    return fmt::format("{} sides for {} ranks", call.sides.size(), ranks);
  }
  if (call.root < 0 || static_cast<std::size_t>(call.root) >= ranks) {
    return fmt::format("root {} of {} ranks", call.root, ranks);
  }
  const std::string counts = illegal_counts(call, ranks);
  return counts.empty() ? illegal_method(call, ranks, transport) : counts;
}

std::string illegal_message(const Message& message, const Groups& groups) {
  const auto group = groups.find(message.group);
  if (group == groups.end()) {
    return fmt::format("group {} does not exist yet", message.group);
  }
  const auto ranks = static_cast<Rank>(group->second.size());
  const auto is_place = [ranks](Rank place) { return place >= 0 && place < ranks; };
  if (!is_place(message.from) || !is_place(message.to) || message.from == message.to) {
    return fmt::format("a message from {} to {} in a group of {}", message.from, message.to, ranks);
  }
  return message.count < 0 ? "a negative count" : "";
}

std::string illegal_groups(const NewGroups& made, const Groups& groups) {
  const auto parent = groups.find(made.parent);
  if (parent == groups.end()) {
    return fmt::format("group {} does not exist yet", made.parent);
  }
  std::vector<Rank> used;
  for (const NewGroups::Part& part : made.parts) {
    if (groups.contains(part.id) || part.places.empty()) {
      return fmt::format("group {} exists already or is empty", part.id);
    }
    used.insert(used.end(), part.places.begin(), part.places.end());
  }
  std::ranges::sort(used);
  const auto ranks = static_cast<Rank>(parent->second.size());
  const bool twice = std::ranges::adjacent_find(used) != used.end();
  if (used.empty() || twice || used.front() < 0 || used.back() >= ranks) {
    return "a place is missing, repeated or out of range";
  }
  const bool covers = used.size() == parent->second.size();
  const bool is_split = made.kind == NewGroups::Kind::Split;
  return (is_split && !covers) || (!is_split && made.parts.size() != 1) ? "wrong parts" : "";
}

}  // namespace

std::string_view name(Transport transport) {
  return kTransports.at(static_cast<std::size_t>(transport)).second;
}

Transport parse_fuzz_transport(std::string_view text) {
  for (const auto& [transport, known] : kTransports) {
    if (known == text) {
      return transport;
    }
  }
  throw Error(ErrorKind::Usage,
              fmt::format("unknown transport '{}'; use in-process, shm, tcp, tls or ucx", text));
}

std::vector<Transport> built_transports() {
  std::vector<Transport> built{Transport::InProcess, Transport::SharedMemory, Transport::Tcp,
                               Transport::Tls};
  if (is_built(TransportKind::Ucx)) {
    built.push_back(Transport::Ucx);
  }
  return built;
}

bool shares_memory(Transport transport) {
  return transport == Transport::InProcess || transport == Transport::SharedMemory;
}

void add_groups(Groups& groups, const NewGroups& made) {
  const std::vector<Rank>& parent = groups.at(made.parent);
  for (const NewGroups::Part& part : made.parts) {
    std::vector<Rank>& members = groups[part.id];
    for (const Rank place : part.places) {
      members.push_back(parent.at(static_cast<std::size_t>(place)));
    }
  }
}

bool is_legal(const Collective& call, Algorithm algorithm, Rank ranks) {
  const std::vector<Algorithm> legal = algorithms_for(call.operation);
  if (std::ranges::find(legal, algorithm) == legal.end()) {
    return false;
  }
  if (call.counts.empty() || ranks == 1) {
    return true;
  }
  return call.operation == Operation::Alltoall ? algorithm == Algorithm::Pairwise
                                               : !has_segments(algorithm);
}

std::string find_illegal(const Sequence& sequence) {
  Groups groups;
  for (Rank r = 0; r < sequence.ranks; ++r) {
    groups[0].push_back(r);
  }
  for (const Step& step : sequence.steps) {
    std::string problem;
    if (const auto* call = std::get_if<Collective>(&step.action)) {
      problem = illegal_collective(*call, groups, sequence.transport);
    } else if (const auto* message = std::get_if<Message>(&step.action)) {
      problem = illegal_message(*message, groups);
    } else {
      problem = illegal_groups(std::get<NewGroups>(step.action), groups);
    }
    if (!problem.empty()) {
      return fmt::format("step {}: {}", step.key, problem);
    }
    if (const auto* made = std::get_if<NewGroups>(&step.action)) {
      add_groups(groups, *made);
    }
  }
  return sequence.ranks < 1 ? "no ranks" : "";
}

}  // namespace trireme::fuzz
