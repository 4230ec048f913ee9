// Shrinking a failed group: its survivors agree on the membership and create a new group.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/group/group_core.h"
#include "comm/group/new_group.h"
#include "comm/op/op.h"
#include "comm/world/world_core.h"
#include "trireme/comm.h"

namespace trireme {

using comm::Agreement;
using comm::Agreements;
using comm::Failure;
using comm::GroupEntry;
using comm::mix_context;
using comm::NewArea;
using comm::NewGroup;
using comm::Progress;
using comm::Standing;
using comm::WorldCore;

namespace {

/// Takes part in an agreement until it has an outcome.
class AgreeOp : public comm::Op {
 public:
  struct Options {
    std::uint64_t context = 0;
    std::vector<Rank> members{};  ///< world ranks, including this one, by rank in the group
    Rank me = 0;                  ///< rank of this process in the group
    std::vector<std::byte> payload{};
  };
  AgreeOp(WorldCore& world, const Options& options)
      : world_(world),
        context_(options.context),
        members_(options.members),
        began_(std::chrono::steady_clock::now()) {
    world_.agreements().begin(context_, members_, options.me, options.payload);
    observe();
  }

  [[nodiscard]] Progress advance() override {
    world_.messages().progress();
    const Agreements::State state = world_.agreements().state(context_);
    switch (state.outcome) {
      case Agreement::Outcome::Open:
        return Progress::Stuck;
      case Agreement::Outcome::Decided:
        return Progress::Done;
      case Agreement::Outcome::Refused:
        break;
    }
    throw CommError(
        CommFault::Stopped, {world_.rank()},
        fmt::format("shrink: rank {} cannot continue: {}. Only ranks that reach more than "
                    "half of those not known to be dead continue, or half with the "
                    "lowest; the others must be started again",
                    world_.rank(), state.reason));
  }

  /// The time counts from the start: messages do not extend the wait.
  void check(Seconds /*stuck*/) override {
    observe();
    const Seconds waited{
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count()};
    if (waited > world_.patience()) {
      expire(waited);
    }
  }

  void expire(Seconds stuck) override {
    const Agreements::State state = world_.agreements().state(context_);
    world_.agreements().withdraw(context_, "it waited too long for the others");
    throw CommError(
        CommFault::Late, state.missing,
        fmt::format("shrink: rank {} waited {:.1f} s for rank {}, which is alive but did "
                    "not call shrink()",
                    world_.rank(), stuck.count, fmt::join(state.missing, ", ")));
  }

  [[nodiscard]] Agreements::State result() const { return world_.agreements().state(context_); }

 private:
  void observe() {
    std::vector<Standing> seen;
    seen.reserve(members_.size());
    for (const Rank member : members_) {
      const std::optional<Failure> failure =
          member == world_.rank() ? std::nullopt : world_.failure(member);
      // Messages that a rank sent before it failed still count, in particular that it had joined.
      const bool counts = failure && world_.is_final(member, left_);
      seen.push_back(counts ? failure->standing : Standing::Alive);
    }
    world_.agreements().observe(context_, seen);
  }

  WorldCore& world_;
  std::uint64_t context_;
  std::vector<Rank> members_;
  comm::Departures left_;
  std::chrono::steady_clock::time_point began_;
};

/// Survivors that disagree, as one that was declared dead may, get groups that ignore each other.
std::uint64_t context_of(std::uint64_t context, const std::vector<Rank>& members) {
  for (const Rank member : members) {
    context = mix_context(context, static_cast<std::uint64_t>(member) + 1);
  }
  return context;
}

}  // namespace

Group Group::shrink() {
  WorldCore& world = core_->world();
  core_->failures().abandon_to_shrink();
  world.require_not_declared_dead();
  const std::uint64_t context =
      mix_context(mix_context(core_->members().context(), 0x73687269), core_->count_subset(1));
  NewArea own(world);
  const GroupEntry mine = own.entry(0, 0);
  const auto payload = std::as_bytes(std::span(&mine, 1));
  AgreeOp agree(world, {.context = context,
                        .members = core_->members().world_ranks(),
                        .me = rank(),
                        .payload = {payload.begin(), payload.end()}});
  world.engine().run(agree);
  const Agreements::State state = agree.result();
  for (const Rank member : core_->members().world_ranks()) {
    if (std::ranges::find(state.members, member) == state.members.end()) {
      world.declare_dead(member, "the other ranks agreed to continue without it");
    }
  }
  NewGroup group{.context = context_of(context, state.members), .members = state.members};
  for (const auto& entry : state.payloads) {
    group.entries.push_back(comm::read_entry(entry));
  }
  return make_group(world, group, own);
}

}  // namespace trireme
