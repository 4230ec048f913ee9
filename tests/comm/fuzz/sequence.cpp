#include "sequence.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace trireme::fuzz {
namespace {

constexpr std::array<std::pair<Transport, std::string_view>, 7> kTransports{{
    {Transport::InProcess, "in-process"},
    {Transport::SharedMemory, "shm"},
    {Transport::Tcp, "tcp"},
    {Transport::Tls, "tls"},
    {Transport::Ucx, "ucx"},
    {Transport::Mixed, "mixed"},
    {Transport::MixedTls, "mixed-tls"},
}};

std::string illegal_counts(const Collective& call, std::size_t ranks) {
  const std::size_t wanted = call.operation == Operation::Alltoall ? ranks * ranks : ranks;
  const bool takes_counts =
      call.operation == Operation::Alltoall || call.operation == Operation::Scatter ||
      call.operation == Operation::Gather || call.operation == Operation::Allgather ||
      call.operation == Operation::ReduceScatter;
  if (!call.counts.empty() && (!takes_counts || call.counts.size() != wanted)) {
    return fmt::format("{} counts for a {} of {} ranks", call.counts.size(),
                       to_text(call.operation), ranks);
  }
  const bool negative = std::ranges::any_of(call.counts, [](std::int64_t n) { return n < 0; });
  return negative || call.count < 0 ? "a negative count" : "";
}

std::string illegal_method(const Collective& call, const std::vector<Rank>& members,
                           const Sequence& sequence) {
  if (call.method.kind == Method::Kind::Direct && !is_direct_legal(sequence, members)) {
    return "direct operations need shared memory";
  }
  if (call.method.kind == Method::Kind::Scheduled &&
      !is_legal(call, call.method.algorithm, static_cast<Rank>(members.size()))) {
    return fmt::format("no {} by {}", to_text(call.operation), to_text(call.method.algorithm));
  }
  return "";
}

bool is_missing_memory(const Side& side, Transport transport) {
  const bool shared = side.input.memory == Memory::Shared || side.output.memory == Memory::Shared;
  return shared && !shares_memory(transport);
}

std::string illegal_sides(const Collective& call, Transport transport) {
  for (const Side& side : call.sides) {
    if (is_missing_memory(side, transport)) {
      return fmt::format("no shared memory over {}", to_text(transport));
    }
    if (side.layout == Side::Layout::InPlace && call.operation == Operation::Alltoall &&
        !call.counts.empty()) {
      return "an all-to-all with counts cannot be in place";
    }
  }
  return "";
}

std::string illegal_reduction(const Collective& call) {
  const bool bitwise = call.reduction == Reduction::BitAnd || call.reduction == Reduction::BitOr ||
                       call.reduction == Reduction::BitXor;
  return bitwise && is_float(call.dtype) ? "bitwise reductions are for integers" : "";
}

std::string first_of(const std::vector<std::string>& problems) {
  const auto it = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
  return it == problems.end() ? "" : *it;
}

std::string illegal_collective(const Collective& call, const Groups& groups,
                               const Sequence& sequence) {
  const std::vector<Rank>& members = groups.at(call.group);
  const std::size_t ranks = members.size();
  if (call.sides.size() != ranks) {
    return fmt::format("{} sides for {} ranks", call.sides.size(), ranks);
  }
  if (call.root < 0 || static_cast<std::size_t>(call.root) >= ranks) {
    return fmt::format("root {} of {} ranks", call.root, ranks);
  }
  return first_of({illegal_counts(call, ranks), illegal_method(call, members, sequence),
                   illegal_sides(call, sequence.transport), illegal_reduction(call),
                   call.repeat < 1 ? "fewer than one call" : ""});
}

std::string illegal_message(const Message& message, const Groups& groups, Transport transport) {
  const auto ranks = static_cast<Rank>(groups.at(message.group).size());
  const auto is_place = [ranks](Rank place) { return place >= 0 && place < ranks; };
  if (!is_place(message.from) || !is_place(message.to) || message.from == message.to) {
    return fmt::format("a message from {} to {} in a group of {}", message.from, message.to, ranks);
  }
  if (is_missing_memory(message.sender, transport) ||
      is_missing_memory(message.receiver, transport)) {
    return fmt::format("no shared memory over {}", to_text(transport));
  }
  return message.count < 0 ? "a negative count" : "";
}

std::string illegal_groups(const NewGroups& made, const Groups& groups) {
  const std::size_t ranks = groups.at(made.parent).size();
  std::vector<Rank> used;
  for (const NewGroups::Part& part : made.parts) {
    if (groups.contains(part.id) || part.places.empty()) {
      return fmt::format("group {} exists already or is empty", part.id);
    }
    used.insert(used.end(), part.places.begin(), part.places.end());
  }
  std::ranges::sort(used);
  const bool twice = std::ranges::adjacent_find(used) != used.end();
  if (used.empty() || twice || used.front() < 0 || static_cast<std::size_t>(used.back()) >= ranks) {
    return "a place is missing, repeated or out of range";
  }
  const bool covers = used.size() == ranks;
  const bool is_split = made.kind == NewGroups::Kind::Split;
  return (is_split && !covers) || (!is_split && made.parts.size() != 1) ? "wrong parts" : "";
}

}  // namespace

std::string_view to_text(Transport transport) {
  return kTransports.at(static_cast<std::size_t>(transport)).second;
}

Transport parse_fuzz_transport(std::string_view text) {
  for (const auto& [transport, known] : kTransports) {
    if (known == text) {
      return transport;
    }
  }
  throw Error(ErrorKind::Usage, fmt::format("unknown transport '{}'; see --help", text));
}

std::vector<Transport> all_transports() {
  std::vector<Transport> all;
  for (const auto& [transport, text] : kTransports) {
    all.push_back(transport);
  }
  return all;
}

bool shares_memory(Transport transport) {
  return transport == Transport::InProcess || transport == Transport::SharedMemory ||
         has_hosts(transport);
}

bool has_hosts(Transport transport) {
  return transport == Transport::Mixed || transport == Transport::MixedTls;
}

Groups world_group(Rank ranks) {
  Groups groups;
  for (Rank r = 0; r < ranks; ++r) {
    groups[0].push_back(r);
  }
  return groups;
}

void update_groups(Groups& groups, const Step& step) {
  if (const auto* release = std::get_if<Release>(&step.action)) {
    groups.erase(release->group);
  }
  if (const auto* made = std::get_if<NewGroups>(&step.action)) {
    const std::vector<Rank> parent = groups.at(made->parent);
    for (const NewGroups::Part& part : made->parts) {
      std::vector<Rank>& members = groups[part.id];
      for (const Rank place : part.places) {
        members.push_back(parent.at(static_cast<std::size_t>(place)));
      }
    }
  }
}

int group_of(const Step& step) {
  struct Visitor {
    int operator()(const Collective& call) const { return call.group; }
    int operator()(const Message& message) const { return message.group; }
    int operator()(const NewGroups& made) const { return made.parent; }
    int operator()(const Release& release) const { return release.group; }
  };
  return std::visit(Visitor{}, step.action);
}

bool is_direct_legal(const Sequence& sequence, const std::vector<Rank>& members) {
  const auto host = [&](Rank rank) { return sequence.hosts.at(static_cast<std::size_t>(rank)); };
  return shares_memory(sequence.transport) &&
         std::ranges::all_of(members, [&](Rank r) { return host(r) == host(members.front()); });
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
                                               : !properties(algorithm).segmented;
}

namespace {

std::string illegal_step(const Step& step, const Groups& groups, const Sequence& sequence) {
  if (!groups.contains(group_of(step))) {
    return fmt::format("group {} does not exist", group_of(step));
  }
  if (const auto* call = std::get_if<Collective>(&step.action)) {
    return illegal_collective(*call, groups, sequence);
  }
  if (const auto* message = std::get_if<Message>(&step.action)) {
    return illegal_message(*message, groups, sequence.transport);
  }
  if (const auto* made = std::get_if<NewGroups>(&step.action)) {
    return illegal_groups(*made, groups);
  }
  return group_of(step) == 0 ? "the group of all cannot be released" : "";
}

}  // namespace

std::string find_illegal(const Sequence& sequence) {
  if (sequence.ranks < 1 || sequence.hosts.size() != static_cast<std::size_t>(sequence.ranks)) {
    return "no ranks, or not one host for each";
  }
  Groups groups = world_group(sequence.ranks);
  for (const Step& step : sequence.steps) {
    const std::string problem = illegal_step(step, groups, sequence);
    if (!problem.empty()) {
      return fmt::format("step {}: {}", step.key, problem);
    }
    update_groups(groups, step);
  }
  return "";
}

}  // namespace trireme::fuzz
