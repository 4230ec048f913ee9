// GroupCore: how a group fails. Who finds out tells the others, and all end with the same reason.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "comm/checks.h"
#include "comm/group/group_core.h"
#include "comm/net/deadline.h"
#include "comm/world/world_core.h"

namespace trireme::comm {
namespace {

std::string_view fault_text(CommFault fault) {
  switch (fault) {
    case CommFault::Mismatch:
      return "called something else";
    case CommFault::Died:
      return "died";
    case CommFault::Stopped:
      return "stopped";
    case CommFault::Left:
      return "left the world";
    case CommFault::Late:
      return "did not come";
    case CommFault::Corrupt:
      return "sent damaged data";
    case CommFault::Dead:
      return "gave up";
  }
  return "failed";
}

constexpr std::uint64_t failure_code(CommFault fault, Rank culprit) {
  return static_cast<std::uint64_t>(culprit) << 8 | (static_cast<std::uint64_t>(fault) + 1);
}

}  // namespace

void GroupCore::require_alive() const {
  if (is_dead()) {
    MutexLock lock(mutex_);
    throw CommError(
        CommFault::Dead, {},
        fmt::format("the group is dead; shrink() it to go on. It failed with: {}", reason_));
  }
}

void GroupCore::die(const std::string& reason) {
  {
    MutexLock lock(mutex_);
    if (reason_.empty()) {
      reason_ = reason;
    }
  }
  dead_.store(true, std::memory_order_release);
  finish(sequence());
  world_.mailbox().forget(context_);
}

/// The first to find a failure tells the members of it. False for all others.
bool GroupCore::tell_failure(CommFault fault, Rank culprit, const std::string& message) {
  {
    MutexLock lock(mutex_);
    if (!reason_.empty()) {
      return false;
    }
    reason_ = message;
  }
  const std::uint64_t code = failure_code(fault, culprit);
  if (sees_memory()) {
    Area& mine = area(me_);
    const std::size_t length = std::min(message.size(), mine.why.size() - 1);
    std::copy_n(message.begin(), length, mine.why.begin());
    mine.why[length] = '\0';
    mine.failed.store(code, std::memory_order_seq_cst);
    ring_members();
  } else {
    std::vector<std::byte> data(sizeof(code) + message.size());
    std::memcpy(data.data(), &code, sizeof(code));
    std::memcpy(data.data() + sizeof(code), message.data(), message.size());
    for (const Rank member : members_) {
      if (member != world_.rank() && !world_.failure(member)) {
        world_.post_control(member, ControlKind::Fail, context_, data);
      }
    }
  }
  die(message);
  return true;
}

void GroupCore::fail(CommFault fault, std::vector<Rank> culprits, const std::string& message) {
  if (!tell_failure(fault, culprits.empty() ? -1 : culprits.front(), message)) {
    require_alive();
  }
  throw CommError(fault, std::move(culprits), message);
}

void GroupCore::abandon(const Call& call, const std::string& why) {
  const std::string reduction =
      call.options.user == nullptr
          ? ""
          : fmt::format(" with the reduction '{}'", call.options.user->name);
  tell_failure(CommFault::Mismatch, world_.rank(),
               fmt::format("rank {} failed in its own call of {}{}: {}", world_.rank(),
                           name(call.operation), reduction, why));
}

void GroupCore::abandon_to_shrink() {
  tell_failure(CommFault::Dead, -1,
               fmt::format("rank {} called shrink() on the group", world_.rank()));
}

void GroupCore::await_release(std::uint64_t sequence) const {
  if (!sees_memory()) {
    return;
  }
  const auto give_up = deadline_in(world_.options().deadline);
  for (Rank place = 0; place < size(); ++place) {
    const Rank rank = members_[static_cast<std::size_t>(place)];
    const auto is_clear = [&] {
      return place == me_ || area(place).failed.load() != 0 ||
             area(place).finished.load() >= sequence || world_.failure(rank).has_value();
    };
    while (!is_clear() && !passed(give_up)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

/// What a member did last, as far as this host can see.
std::string GroupCore::last_seen(Rank place) const {
  if (!sees_memory()) {
    return {};
  }
  const Area& theirs = area(place);
  const std::uint64_t first = theirs.slots[0].stamp.load(std::memory_order_acquire);
  const std::uint64_t second = theirs.slots[1].stamp.load(std::memory_order_acquire);
  const Record& record = theirs.records[first >= second ? 0 : 1];
  const std::uint64_t last = std::max(first, second);
  if (last == 0) {
    return "; it had called nothing in this group";
  }
  std::uint64_t chunk = 0;
  for (const auto& clock : theirs.clocks) {
    const std::uint64_t time = clock.load(std::memory_order_acquire);
    if (time >> kChunkBits == last) {
      chunk = std::max(chunk, time & ((std::uint64_t{1} << kChunkBits) - 1));
    }
  }
  return fmt::format("; its last call was #{}, {}, {}", last, to_text(record),
                     theirs.finished.load() >= last ? "which it had finished"
                                                    : fmt::format("in step {}", chunk + 1));
}

void GroupCore::fail_for(Rank place, CommFault fault, const std::string& why,
                         const std::string& what) {
  const Rank rank = members_[static_cast<std::size_t>(place)];
  fail(fault, {rank},
       fmt::format("{}: rank {} on host {} {}{}{}", what, rank,
                   world_.host(rank).substr(0, world_.host(rank).find('/')), fault_text(fault),
                   why.empty() ? "" : " (" + why + ")", last_seen(place)));
}

void GroupCore::hear_failure(std::uint64_t code, const std::string& text) {
  MutexLock lock(mutex_);
  if (!notice_) {
    notice_ = Notice{code, text};
  }
}

/// Members that gave the group up: this rank gives it up for the same reason.
void GroupCore::check_failures() {
  std::uint64_t code = 0;
  std::string why;
  if (sees_memory()) {
    for (Rank place = 0; place < size() && code == 0; ++place) {
      code = place == me_ ? 0 : area(place).failed.load(std::memory_order_acquire);
      why = code == 0 ? "" : area(place).why.data();
    }
  } else {
    MutexLock lock(mutex_);
    if (notice_) {
      code = notice_->code;
      why = notice_->text;
    }
  }
  if (code != 0) {
    const auto culprit = static_cast<Rank>(static_cast<std::int64_t>(code) >> 8);
    fail(static_cast<CommFault>((code & 0xFF) - 1),
         culprit < 0 ? std::vector<Rank>{} : std::vector<Rank>{culprit}, why);
  }
}

bool GroupCore::is_final(Rank place) {
  const Rank rank = members_[static_cast<std::size_t>(place)];
  MutexLock lock(mutex_);
  return world_.is_final(rank, left_);
}

void GroupCore::check_members(const std::function<bool(Rank place)>& missing,
                              const std::function<std::string()>& what) {
  if (!is_checked()) {
    return;
  }
  for (Rank place = 0; place < size(); ++place) {
    const Rank rank = members_[static_cast<std::size_t>(place)];
    const std::optional<Failure> failure = world_.failure(rank);
    if (!failure) {
      continue;
    }
    if (failure->standing == Standing::GaveUpOnUs) {
      fail(
          CommFault::Stopped, {world_.rank()},
          fmt::format("{}: rank {} gave rank {} up, which gave no sign of life for longer than the "
                      "deadline of {}",
                      what(), rank, world_.rank(), to_text(world_.options().deadline)));
    }
    if (failure->fault != CommFault::Left) {
      fail_for(place, failure->fault, failure->text, what());
    }
    // Asked again once all has arrived: what is missing may have been the last of it.
    if (missing(place) && is_final(place) && missing(place)) {
      fail_for(place, CommFault::Left, "", what());
    }
  }
  check_failures();
  if (const auto verdict = hearing_.verdict()) {
    fail(CommFault::Mismatch, verdict->culprits, verdict->text);
  }
}

void GroupCore::fail_late(const std::vector<Rank>& places, Seconds stuck, const std::string& what) {
  std::vector<Rank> late;
  std::string names;
  for (const Rank place : places) {
    late.push_back(members_[static_cast<std::size_t>(place)]);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", late.back());
  }
  const std::string seen = places.empty() ? "" : last_seen(places.front());
  fail(CommFault::Late, late,
       fmt::format("{}: rank {} waited {:.1f} s for rank {}, which is alive but did not come{}",
                   what, world_.rank(), stuck.count, names, seen));
}

}  // namespace trireme::comm
