#include "comm/group/group_core.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace trireme::comm {
namespace {

/// How to write to staging memory at first.
Stores first_stores(const std::optional<HostCosts>& costs) {
  return costs && costs->stages_cached() ? Stores::Cached : Stores::Streaming;
}

std::unique_ptr<DirectState> make_direct_state(WorldCore& world, const Membership& members,
                                               const GroupCore::Options& options) {
  if (options.areas.empty()) {
    return nullptr;
  }
  DirectState::Options direct{.areas = options.areas,
                              .rank = members.rank(),
                              .can_fetch = true,
                              .stores = first_stores(world.options().costs),
                              .last_sequence = options.last_sequence};
  for (const Rank rank : members.world_ranks()) {
    RankPage& page = *world.page(rank);
    direct.can_fetch = direct.can_fetch && page.fetches.load(std::memory_order_acquire);
    if (rank != world.rank()) {
      direct.bells.push_back(&page.bell);
    }
  }
  return std::make_unique<DirectState>(std::move(direct));
}

/// How many ranks each host has, if the members are grouped by host, the same number on each; else
/// 0.
Rank equal_ranks_per_host(const WorldCore& world, const std::vector<Rank>& members) {
  std::vector<Rank> runs;  // lengths of runs of consecutive members on one host
  std::set<std::string> seen;
  for (std::size_t place = 0; place < members.size(); ++place) {
    const std::string& host = world.host(members[place]);
    if (place > 0 && host == world.host(members[place - 1])) {
      ++runs.back();
    } else if (seen.insert(host).second) {
      runs.push_back(1);
    } else {
      return 0;
    }
  }
  return std::ranges::all_of(runs, [&](Rank run) { return run == runs.front(); }) ? runs.front()
                                                                                  : 0;
}

/// The same on all ranks: if members are on several hosts, each has one across a network.
TransportKind slowest_transport(WorldCore& world, const std::vector<Rank>& members) {
  for (const Rank member : members) {
    if (member != world.rank() && world.reach(member).memory() == nullptr) {
      return world.reach(member).kind();
    }
  }
  return world.reach(world.rank()).kind();
}

GroupShape shape_of(WorldCore& world, const Membership& members, bool shares_memory) {
  return {.ranks = members.size(),
          .ranks_per_host = equal_ranks_per_host(world, members.world_ranks()),
          .transport = slowest_transport(world, members.world_ranks()),
          .shares_memory = shares_memory};
}

}  // namespace

GroupCore::GroupCore(WorldCore& world, const Options& options)
    : world_(world),
      members_(options.context, options.members, world.rank()),
      direct_(make_direct_state(world, members_, options)),
      mismatches_(members_.world_ranks(), members_.rank(),
                  [this](Rank to, ControlKind kind, const Record& record) {
                    world_.post_control(to, kind, members_.context(),
                                        std::as_bytes(std::span(&record, 1)));
                  }),
      failures_({.world = world,
                 .members = members_,
                 .direct = direct_.get(),
                 .mismatches = mismatches_,
                 .on_death = [this] { release_members(); }}),
      shape_(shape_of(world, members_, direct_ != nullptr)),
      choice_(shape_, world.options()),
      schedules_(shape_.ranks, shape_.ranks_per_host, choice_.model().messages(DType::F32)),
      calls_(members_, choice_, schedules_, options.last_sequence),
      op_context_{members_, world.messages(), world.scratch(), failures_},
      direct_context_(direct_ == nullptr
                          ? std::nullopt
                          : std::optional(DirectContext{op_context_, *direct_, world.memory(),
                                                        *world.page(world.rank())})),
      scheduled_context_{op_context_, direct_context_ ? &*direct_context_ : nullptr, mismatches_,
                         schedules_, world.options().on_step} {}

GroupCore::~GroupCore() {
  world_.messages().mailbox().forget(members_.context());
  if (direct_ != nullptr) {
    world_.retire_area(&direct_->area(members_.rank()), direct_->areas(), calls_.sequence());
  }
}

/// The group has failed: members need not wait for this rank, nor this rank for messages.
void GroupCore::release_members() {
  if (direct_ != nullptr) {
    direct_->finish(calls_.sequence());
  }
  world_.messages().mailbox().forget(members_.context());
}

void GroupCore::on_call(Rank world_rank, const Record& record, bool is_inquiry) {
  mismatches_.receive(world_rank, record, is_inquiry);
}

void GroupCore::on_failure(std::uint64_t code, const std::string& text) {
  failures_.receive({code, text});
}

std::shared_ptr<GroupCore> make_group_core(WorldCore& world, const GroupCore::Options& options) {
  auto group = std::make_shared<GroupCore>(world, options);
  world.listen(options.context, group);
  return group;
}

}  // namespace trireme::comm
