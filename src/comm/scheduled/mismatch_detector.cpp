#include "comm/scheduled/mismatch_detector.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "comm/checks.h"

namespace trireme::comm {
namespace {

/// A rank that has waited this long reports its call to the others.
constexpr Seconds kQueryAfter{0.05};
/// How long ranks that disagree wait for everyone's answer before they give up.
constexpr std::chrono::milliseconds kDisputePatience{200};

}  // namespace

MismatchDetector::MismatchDetector(std::vector<Rank> members, Rank me, Send send)
    : members_(std::move(members)), me_(me), send_(std::move(send)), reached_(members_.size()) {}

void MismatchDetector::remember(const Record& record) {
  if (!is_checked()) {
    return;
  }
  MutexLock lock(mutex_);
  remembered_.resize(kRemembered);
  copy_record(record, remembered_[record.sequence % kRemembered]);
}

std::optional<Record> MismatchDetector::recall(std::uint64_t sequence) const {
  if (remembered_.empty() || remembered_[sequence % kRemembered].sequence != sequence) {
    return std::nullopt;
  }
  return remembered_[sequence % kRemembered];
}

void MismatchDetector::ask(const Record& record) const {
  for (Rank place = 0; place < members_.count(); ++place) {
    if (place != me_) {
      send_(members_[place], ControlKind::Inquiry, record);
    }
  }
}

void MismatchDetector::inquire(const Record& record, Seconds stuck) {
  if (asked_.exchange(record.sequence) != record.sequence) {
    query_after_.store(kQueryAfter.count);
  }
  if (stuck.count > query_after_.load()) {
    query_after_.store(2 * stuck.count);
    ask(record);
  }
}

/// From now on this call is the disputed one.
void MismatchDetector::open(std::uint64_t sequence) {
  disputed_ = sequence;
  disputed_since_ = Clock::now();
  has_dispute_.store(true);
}

void MismatchDetector::dispute(const Record& record) {
  inquire(record, Seconds{1});
  MutexLock lock(mutex_);
  if (disputed_ == 0) {
    open(record.sequence);
  }
}

void MismatchDetector::receive(Rank world_rank, const Record& record, bool is_query) {
  const auto place = static_cast<Rank>(std::ranges::find(members_, world_rank) - members_.begin());
  if (place == members_.count()) {
    return;
  }
  std::optional<Record> mine;
  {
    MutexLock lock(mutex_);
    std::uint64_t& reached = reached_[place];
    reached = std::max(reached, record.sequence);
    if (remembered_.empty()) {
      return;
    }
    mine = recall(record.sequence);
    // The first call in which they differ counts.
    if (mine && mine->fingerprint != record.fingerprint &&
        (disputed_ == 0 || record.sequence < disputed_)) {
      open(record.sequence);
    }
    if (disputed_ == 0 || record.sequence == disputed_) {
      if (witnesses_.empty() || witnesses_.front().record.sequence != record.sequence) {
        forget_witnesses(record.sequence);
      }
      witnesses_[place] = {world_rank, true, record};
    }
  }
  if (is_query && mine) {
    send_(world_rank, ControlKind::Answer, *mine);
    if (mine->fingerprint != record.fingerprint) {
      inquire(*mine, Seconds{1});  // so that all ranks learn of all calls
    }
  }
}

std::vector<Rank> MismatchDetector::silent_in(std::uint64_t sequence) {
  MutexLock lock(mutex_);
  std::vector<Rank> silent;
  for (Rank place = 0; place < members_.count(); ++place) {
    if (place != me_ && reached_[place] < sequence) {
      silent.push_back(place);
    }
  }
  return silent;
}

/// No member has reported this call yet.
void MismatchDetector::forget_witnesses(std::uint64_t sequence) {
  witnesses_.assign(members_.size(), Witness{});
  for (Rank i = 0; i < members_.count(); ++i) {
    witnesses_[i].world_rank = members_[i];
    witnesses_[i].record.sequence = sequence;
  }
}

/// All agree on the disputed call, so an earlier one differs. False if none is remembered.
bool MismatchDetector::look_further_back(std::uint64_t sequence) {
  std::optional<Record> before;
  {
    MutexLock lock(mutex_);
    before = sequence <= 1 ? std::nullopt : recall(sequence - 1);
    if (!before) {
      return false;
    }
    open(before->sequence);
    forget_witnesses(before->sequence);
  }
  ask(*before);
  return true;
}

std::optional<MismatchDetector::Verdict> MismatchDetector::verdict() {
  if (!has_dispute_.load()) {
    return std::nullopt;
  }
  std::vector<Witness> witnesses;
  std::uint64_t sequence = 0;
  {
    MutexLock lock(mutex_);
    sequence = disputed_;
    if (witnesses_.empty() || witnesses_.front().record.sequence != sequence) {
      forget_witnesses(sequence);
    }
    if (const std::optional<Record> mine = recall(sequence)) {
      witnesses_[me_] = {members_[me_], true, *mine};
    }
    const bool all = std::ranges::all_of(witnesses_, [](const Witness& w) { return w.known; });
    if (!all && Clock::now() - disputed_since_ < kDisputePatience) {
      return std::nullopt;
    }
    witnesses = witnesses_.items();
  }
  std::vector<Rank> culprits = mismatch_culprits(witnesses);
  if (!culprits.empty()) {
    return Verdict{std::move(culprits), mismatch_text(sequence, witnesses)};
  }
  if (look_further_back(sequence)) {
    return std::nullopt;
  }
  return Verdict{{},
                 fmt::format("the ranks disagree on a call before #{}, which is too long ago to "
                             "say more",
                             sequence)};
}

}  // namespace trireme::comm
