#include "comm/group/failure_state.h"

#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/checks.h"
#include "comm/net/deadline.h"

namespace trireme::comm {
namespace {

constexpr std::uint64_t failure_code(CommFault fault, Rank culprit) {
  return static_cast<std::uint64_t>(culprit) << 8 | (static_cast<std::uint64_t>(fault) + 1);
}

}  // namespace

FailureState::FailureState(Options options)
    : world_(options.world),
      members_(options.members),
      direct_(options.direct),
      mismatches_(options.mismatches),
      on_death_(std::move(options.on_death)) {}

void FailureState::throw_dead() const {
  MutexLock lock(mutex_);
  throw CommError(CommFault::Dead, {},
                  fmt::format("{} (in an earlier call; the group has failed)", reason_));
}

/// The first rank to detect a failure notifies the members. False for all others.
bool FailureState::announce_failure(CommFault fault, Rank culprit, const std::string& message) {
  {
    MutexLock lock(mutex_);
    if (!reason_.empty()) {
      return false;
    }
    reason_ = message;
  }
  const FailureNotice notice{failure_code(fault, culprit), message};
  if (direct_ != nullptr) {
    direct_->publish_failure(notice);
  } else {
    send(members_.context(), notice);
  }
  dead_.store(true, std::memory_order_release);
  on_death_();
  return true;
}

void FailureState::send(std::uint64_t context, const FailureNotice& notice) {
  std::vector<std::byte> data(sizeof(notice.code) + notice.text.size());
  std::memcpy(data.data(), &notice.code, sizeof(notice.code));
  std::memcpy(data.data() + sizeof(notice.code), notice.text.data(), notice.text.size());
  for (const Rank member : members_.world_ranks()) {
    if (member != world_.rank() && !world_.failure(member)) {
      world_.post_control(member, ControlKind::Fail, context, data);
    }
  }
}

void FailureState::fail(CommFault fault, std::vector<Rank> culprits, const std::string& message) {
  if (!announce_failure(fault, culprits.empty() ? -1 : culprits.front(), message)) {
    require_alive();
  }
  throw CommError(fault, std::move(culprits), message);
}

void FailureState::abandon(const Call& call, const std::string& why) {
  const std::string reduction =
      call.options.user == nullptr
          ? ""
          : fmt::format(" with the reduction '{}'", call.options.user->name);
  (void)announce_failure(CommFault::Mismatch, world_.rank(),
                         fmt::format("rank {} failed in its own call of {}{}: {}", world_.rank(),
                                     to_text(call.operation), reduction, why));
}

void FailureState::abandon_to_shrink() {
  (void)announce_failure(CommFault::Dead, -1,
                         fmt::format("rank {} called shrink() on the group", world_.rank()));
}

void FailureState::refuse(std::uint64_t context, const CommError& error) {
  const Rank culprit = error.culprits().empty() ? -1 : error.culprits().front();
  send(context, {failure_code(error.fault(), culprit),
                 fmt::format("rank {} could not make the group: {}", world_.rank(), error.what())});
}

void FailureState::await_release(std::uint64_t sequence) {
  if (direct_ == nullptr) {
    return;
  }
  const auto give_up = deadline_in(world_.options().deadline);
  for (Rank place = 0; place < members_.size(); ++place) {
    while (direct_->may_still_use(place, sequence) && !world_.failure(members_.world_rank(place)) &&
           !passed(give_up)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

/// A member's last call, as far as this host can see.
std::string FailureState::last_call_of(Rank place) const {
  return direct_ == nullptr ? "" : direct_->last_call_of(place);
}

void FailureState::fail_for(Rank place, CommFault fault, const std::string& why,
                            const std::string& what) {
  const Rank rank = members_.world_rank(place);
  fail(fault, {rank},
       fmt::format("{}: rank {} on host {} {}{}{}", what, rank,
                   world_.host(rank).substr(0, world_.host(rank).find('/')), to_text(fault),
                   why.empty() ? "" : " (" + why + ")", last_call_of(place)));
}

void FailureState::fail_declared_dead(Rank by, const std::string& what) {
  fail(CommFault::Stopped, {world_.rank()},
       fmt::format("{}: rank {} declared rank {} dead: it was silent for longer than the "
                   "deadline of {}",
                   what, by, world_.rank(), to_text(world_.options().deadline)));
}

void FailureState::receive(FailureNotice notice) {
  MutexLock lock(mutex_);
  if (!notice_) {
    notice_ = std::move(notice);
  }
}

/// If a member marked the group as failed, this rank does so for the same reason.
void FailureState::check_notices() {
  std::optional<FailureNotice> notice;
  if (direct_ != nullptr) {
    notice = direct_->find_failure();
  }
  if (!notice) {
    MutexLock lock(mutex_);
    notice = notice_;
  }
  if (notice && notice->code != 0) {
    const auto culprit = static_cast<Rank>(static_cast<std::int64_t>(notice->code) >> 8);
    fail(static_cast<CommFault>((notice->code & 0xFF) - 1),
         culprit < 0 ? std::vector<Rank>{} : std::vector<Rank>{culprit}, notice->text);
  }
}

bool FailureState::is_final(Rank place) {
  MutexLock lock(mutex_);
  return world_.is_final(members_.world_rank(place), departures_);
}

void FailureState::check_members(const std::function<bool(Rank place)>& missing,
                                 const std::function<std::string()>& what) {
  if (!is_checked()) {
    return;
  }
  for (Rank place = 0; place < members_.size(); ++place) {
    const Rank rank = members_.world_rank(place);
    const std::optional<Failure> failure = world_.failure(rank);
    if (!failure) {
      continue;
    }
    // A rank that did not stall cannot know who was cut off; it blames the one that no longer talks to it.
    if (failure->standing == Standing::FoundUsStalled) {
      fail_declared_dead(rank, what());
    }
    if (failure->fault != CommFault::Left) {
      fail_for(place, failure->fault, failure->text, what());
    }
    // Check again once everything has arrived: the last of it may have been what was missing.
    if (missing(place) && is_final(place) && missing(place)) {
      fail_for(place, CommFault::Left, "", what());
    }
  }
  check_notices();
  if (const auto verdict = mismatches_.verdict()) {
    fail(CommFault::Mismatch, verdict->culprits, verdict->text);
  }
}

void FailureState::fail_late(const std::vector<Rank>& places, Seconds stuck,
                             const std::string& what) {
  std::vector<Rank> late;
  late.reserve(places.size());
  for (const Rank place : places) {
    late.push_back(members_.world_rank(place));
  }
  const std::string seen = places.empty() ? "" : last_call_of(places.front());
  fail(CommFault::Late, late,
       fmt::format("{}: rank {} waited {:.1f} s for rank {}, which is alive but did not join{}",
                   what, world_.rank(), stuck.count, fmt::join(late, ", "), seen));
}

}  // namespace trireme::comm
