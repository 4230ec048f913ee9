// Making groups from groups: split, subset, shrink.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "comm/world_core.h"
#include "trireme/comm.h"

namespace trireme {

using comm::Area;
using comm::ExchangeOp;
using comm::GroupCore;
using comm::WorldCore;

namespace {

/// What a rank brings to a new group: where its area is, and the last number used in it.
struct Entry {
  std::int64_t colour = 0;
  std::int64_t key = 0;
  std::uint64_t place = 0;
  std::uint64_t last = 0;
};
constexpr std::size_t kEntryWords = sizeof(Entry) / sizeof(std::int64_t);

Entry read_entry(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(Entry)> raw{};
  std::ranges::copy(bytes.first(raw.size()), raw.begin());
  return std::bit_cast<Entry>(raw);
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93;
  a = (a ^ b) * kOdd;
  return (a ^ (a >> 32)) | (std::uint64_t{1} << 63);  // never the group of all
}

/// An area of this rank's for a new group. If the group is not made after all it is left alone: others
/// may have been told of it.
class NewArea {
 public:
  explicit NewArea(WorldCore& world) : world_(world) {
    if (world.has_memory()) {
      area_ = world.take_area();
    }
  }
  [[nodiscard]] Entry entry(std::int64_t colour, std::int64_t key) const {
    if (area_ == nullptr) {
      return {colour, key, 0, 0};
    }
    return {colour, key, *world_.memory().place_of(area_, sizeof(Area)), area_->finished.load()};
  }
  Area* take() { return std::exchange(area_, nullptr); }

 private:
  WorldCore& world_;
  Area* area_ = nullptr;
};

Group make_group(WorldCore& world, std::uint64_t context, const std::vector<Rank>& members,
                 const std::vector<Entry>& entries, NewArea& own) {
  std::vector<Area*> areas;
  std::uint64_t last = 0;
  if (world.share_memory(members) && members.size() <= comm::kMostDirectRanks) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      areas.push_back(members[i] == world.rank() ? own.take()
                                                 : reinterpret_cast<Area*>(world.memory().view(
                                                       members[i], entries[i].place)));
      last = std::max(last, entries[i].last);
    }
  }
  return Group(world.make_group(context, members, std::move(areas), last));
}

}  // namespace

Group Group::split(std::int64_t colour, std::int64_t key) {
  core_->require_alive();
  WorldCore& world = core_->world();
  NewArea own(world);
  const Entry mine = own.entry(colour, key);
  std::vector<std::int64_t> sent(kEntryWords);
  std::memcpy(sent.data(), &mine, sizeof(mine));
  std::vector<std::int64_t> heard(kEntryWords * core_->members().size());
  run(allgather<std::int64_t>(sent, heard));
  std::vector<std::pair<Entry, Rank>> chosen;  // entry and place here
  for (Rank place = 0; place < size(); ++place) {
    const Entry entry = read_entry(std::as_bytes(
        std::span(heard).subspan(static_cast<std::size_t>(place) * kEntryWords, kEntryWords)));
    if (entry.colour == colour) {
      chosen.emplace_back(entry, place);
    }
  }
  std::ranges::stable_sort(chosen, {}, [](const auto& c) { return c.first.key; });
  std::vector<Rank> members;
  std::vector<Entry> entries;
  for (const auto& [entry, place] : chosen) {
    members.push_back(core_->members()[static_cast<std::size_t>(place)]);
    entries.push_back(entry);
  }
  const std::uint64_t context =
      mix(mix(core_->context(), core_->sequence()), static_cast<std::uint64_t>(colour));
  return make_group(world, context, members, entries, own);
}

Group Group::subset(const std::vector<Rank>& places) {
  core_->require_alive();
  WorldCore& world = core_->world();
  std::vector<Rank> members;
  std::uint64_t context = core_->context();
  for (const Rank place : places) {
    if (place < 0 || place >= size()) {
      throw Error(ErrorKind::Usage,
                  fmt::format("subset: {} is no place of a group of {}", place, size()));
    }
    members.push_back(core_->members()[static_cast<std::size_t>(place)]);
    context = mix(context, static_cast<std::uint64_t>(place) + 1);
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
  context = mix(context, core_->count_subset(context));
  NewArea own(world);
  const Entry mine = own.entry(0, 0);
  ExchangeOp exchange(world, {.context = context,
                              .ranks = members,
                              .mine = std::as_bytes(std::span(&mine, 1)),
                              .patience = world.patience()});
  world.engine().run(exchange);
  std::vector<Entry> entries(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    entries[i] = read_entry(*exchange.heard()[i]);
  }
  return make_group(world, context, members, entries, own);
}

namespace {

std::vector<Rank> read_ranks(std::span<const std::byte> bytes) {
  std::vector<Rank> ranks(bytes.size() / sizeof(Rank));
  std::ranges::copy(bytes.first(ranks.size() * sizeof(Rank)),
                    std::as_writable_bytes(std::span(ranks)).begin());
  return ranks;
}

/// One round of agreement: who is left, as each of those left sees it. True if all see the same.
bool agree(WorldCore& world, std::uint64_t context, std::uint64_t round, std::vector<Rank>& left,
           const Entry& mine, std::vector<Entry>& entries) {
  std::vector<std::byte> message;
  for (const auto& part : {std::as_bytes(std::span(&mine, 1)), std::as_bytes(std::span(left))}) {
    message.insert(message.end(), part.begin(), part.end());
  }
  ExchangeOp exchange(world, {.context = context,
                              .round = round,
                              .ranks = left,
                              .mine = message,
                              .lost = ExchangeOp::Options::Lost::LeaveOut,
                              .patience = world.patience()});
  world.engine().run(exchange);
  bool same = true;
  std::vector<Rank> still = left;
  entries.clear();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto& heard = exchange.heard()[i];
    if (!heard || heard->size() < sizeof(Entry)) {
      std::erase(still, left[i]);
      same = false;
      continue;
    }
    entries.push_back(read_entry(*heard));
    const std::vector<Rank> theirs = read_ranks(std::span(*heard).subspan(sizeof(Entry)));
    same = same && theirs == left;
    std::erase_if(still, [&](Rank r) { return std::ranges::find(theirs, r) == theirs.end(); });
  }
  left = still;
  return same;
}

}  // namespace

Group Group::shrink() {
  WorldCore& world = core_->world();
  if (!core_->is_dead()) {
    core_->die("it was shrunk");
  }
  world.require_not_given_up();
  const std::uint64_t context = mix(mix(core_->context(), 0x73687269), core_->count_subset(1));
  std::vector<Rank> left;
  for (const Rank member : core_->members()) {
    const comm::RankPage* page = member == world.rank() ? nullptr : world.page(member);
    const bool gone = world.trouble(member).has_value() ||
                      (page != nullptr && page->presence.load() == comm::Presence::Left);
    if (!gone) {
      left.push_back(member);
    }
  }
  NewArea own(world);
  std::vector<Entry> entries;
  // Two rounds in which all see the same: then everyone knows that everyone knows.
  int same_rounds = 0;
  for (std::uint64_t round = 0; same_rounds < 2; ++round) {
    const bool same = agree(world, context, round, left, own.entry(0, 0), entries);
    same_rounds = same ? same_rounds + 1 : 0;
    if (std::ranges::find(left, world.rank()) == left.end()) {
      throw CommError(CommFault::Stopped, {world.rank()},
                      fmt::format("shrink: the others gave rank {} up", world.rank()));
    }
  }
  return make_group(world, context, left, entries, own);
}

}  // namespace trireme
