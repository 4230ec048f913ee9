// Creating groups from groups: split and subset.
#include "comm/group/new_group.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "comm/group/exchange_op.h"
#include "comm/group/group_core.h"

namespace trireme {
namespace comm {

GroupEntry read_entry(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(GroupEntry)> raw{};
  std::ranges::copy(bytes.first(raw.size()), raw.begin());
  return std::bit_cast<GroupEntry>(raw);
}

std::uint64_t mix_context(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93;
  a = (a ^ b) * kOdd;
  return (a ^ (a >> 32)) | (std::uint64_t{1} << 63);  // never the group of all ranks
}

NewArea::NewArea(WorldCore& world) : world_(world) {
  if (world.has_memory()) {
    area_ = world.take_area();
  }
}

GroupEntry NewArea::entry(std::int64_t color, std::int64_t key) const {
  if (area_ == nullptr) {
    return {color, key, 0, 0};
  }
  return {color, key, *world_.memory().place_of(area_, sizeof(Area)), area_->finished.load()};
}

Area* NewArea::take() {
  return std::exchange(area_, nullptr);
}

Group make_group(WorldCore& world, const NewGroup& group, NewArea& own) {
  std::vector<Area*> areas;
  std::uint64_t last = 0;
  if (world.share_memory(group.members) && group.members.size() <= kMaxDirectRanks) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const Rank member = group.members[i];
      const GroupEntry& entry = group.entries[i];
      areas.push_back(member == world.rank()
                          ? own.take()
                          : reinterpret_cast<Area*>(world.memory().view(member, entry.place)));
      last = std::max(last, entry.last);
    }
  }
  return Group(make_group_core(world, {.context = group.context,
                                       .members = group.members,
                                       .areas = std::move(areas),
                                       .last_sequence = last}));
}

std::unique_ptr<Group> make_group_of_all(WorldCore& world) {
  constexpr std::uint64_t kContext = 1;  // mix_context() never returns it
  std::vector<Rank> everyone(world.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  return std::make_unique<Group>(make_group_core(
      world, {.context = kContext, .members = everyone, .areas = world.first_areas()}));
}

}  // namespace comm

using comm::ExchangeOp;
using comm::GroupEntry;
using comm::mix_context;
using comm::NewArea;
using comm::NewGroup;
using comm::read_entry;
using comm::WorldCore;

namespace {

// The kind of group is part of its context, so that a split never has the context of a subset.
constexpr std::uint64_t kSplit = 0x73706c69;
constexpr std::uint64_t kSubset = 0x73756273;

}  // namespace

Group Group::split(std::int64_t color, std::int64_t key) {
  constexpr std::size_t kWords = sizeof(GroupEntry) / sizeof(std::int64_t);
  core_->failures().require_alive();
  WorldCore& world = core_->world();
  NewArea own(world);
  const GroupEntry mine = own.entry(color, key);
  std::vector<std::int64_t> sent(kWords);
  std::memcpy(sent.data(), &mine, sizeof(mine));
  std::vector<std::int64_t> heard(kWords * size());
  const auto context = [&] {
    const std::uint64_t call =
        mix_context(mix_context(core_->members().context(), kSplit), core_->calls().sequence());
    return mix_context(call, static_cast<std::uint64_t>(color));
  };
  try {
    run(allgather<std::int64_t>(sent, heard));
  } catch (const CommError& error) {
    core_->failures().refuse(context(), error);
    throw;
  }
  std::vector<std::pair<GroupEntry, Rank>> chosen;  // entry and rank in this group
  for (Rank place = 0; place < size(); ++place) {
    const GroupEntry entry =
        read_entry(std::as_bytes(std::span(heard).subspan(place * kWords, kWords)));
    if (entry.color == color) {
      chosen.emplace_back(entry, place);
    }
  }
  std::ranges::stable_sort(chosen, {}, [](const auto& c) { return c.first.key; });
  NewGroup group;
  for (const auto& [entry, place] : chosen) {
    group.members.push_back(core_->members().world_rank(place));
    group.entries.push_back(entry);
  }
  group.context = context();
  return make_group(world, group, own);
}

Group Group::subset(const std::vector<Rank>& places) {
  core_->failures().require_alive();
  WorldCore& world = core_->world();
  NewGroup group;
  std::vector<Rank>& members = group.members;
  std::uint64_t context = mix_context(core_->members().context(), kSubset);
  for (const Rank place : places) {
    if (place < 0 || place >= size()) {
      throw Error(ErrorKind::Usage,
                  fmt::format("subset: invalid rank {} in a group of {}", place, size()));
    }
    members.push_back(core_->members().world_rank(place));
    context = mix_context(context, static_cast<std::uint64_t>(place) + 1);
  }
  std::vector<Rank> sorted = members;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    throw Error(ErrorKind::Usage, "subset: a place is listed twice");
  }
  if (std::ranges::find(members, world.rank()) == members.end()) {
    throw Error(ErrorKind::Usage,
                fmt::format("subset: rank {} calls it without being in it", world.rank()));
  }
  context = mix_context(context, core_->count_subset(context));
  NewArea own(world);
  const GroupEntry mine = own.entry(0, 0);
  ExchangeOp exchange(
      world, {.context = context, .ranks = members, .mine = std::as_bytes(std::span(&mine, 1))});
  try {
    world.engine().run(exchange);
  } catch (const CommError& error) {
    core_->failures().refuse(context, error);
    throw;
  }
  for (const auto& heard : exchange.heard()) {
    group.entries.push_back(read_entry(*heard));
  }
  group.context = context;
  return make_group(world, group, own);
}

}  // namespace trireme
