#include "comm/direct/direct_state.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "comm/checks.h"
#include "comm/direct/direct_limits.h"
#include "comm/transport/memory.h"

namespace trireme::comm {

DirectState::DirectState(Options options)
    : areas_(std::move(options.areas)),
      bells_(std::move(options.bells)),
      rank_(options.rank),
      can_fetch_(options.can_fetch),
      copies_(options.stores),
      staging_(options.stores, kStreamAbove),
      sharing_(Stores::Cached, kStreamAbove),
      all_finished_(options.last_sequence) {}

bool DirectState::may_begin(std::uint64_t sequence) {
  if (all_finished_ + 2 >= sequence) {
    return true;
  }
  for (Rank place = 0; place < size(); ++place) {
    if (place != rank_ && area(place).finished.load(std::memory_order_acquire) + 2 < sequence) {
      return false;
    }
  }
  all_finished_ = sequence - 2;
  return true;
}

void DirectState::finish_early(const Record& record) {
  Area& mine = area(rank_);
  if (is_checked()) {
    Record& kept = mine.early[record.sequence % kEarly];
    if (kept.fingerprint != record.fingerprint || kept.site[0] != '\0' || record.site[0] != '\0') {
      copy_record(record, kept);
    }
    kept.sequence = record.sequence;
  }
  mine.finished.store(record.sequence, std::memory_order_seq_cst);
  ring_members();
}

void DirectState::map_staging() {
  if (std::exchange(staging_mapped_, true)) {
    return;
  }
  for (Rank place = 0; place < size(); ++place) {
    std::byte* begin = area(place).chunk(0);
    const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % kPage;
    // Only a hint: without it pages are mapped on first access.
    (void)madvise(begin - before, before + 2 * kRoundBytes,
                  place == rank_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  }
}

void DirectState::publish_failure(const FailureNotice& notice) const {
  Area& mine = area(rank_);
  const std::size_t length = std::min(notice.text.size(), mine.why.size() - 1);
  std::copy_n(notice.text.begin(), length, mine.why.begin());
  mine.why[length] = '\0';
  mine.failed.store(notice.code, std::memory_order_seq_cst);
  ring_members();
}

std::optional<FailureNotice> DirectState::find_failure() const {
  for (Rank place = 0; place < size(); ++place) {
    const std::uint64_t code =
        place == rank_ ? 0 : area(place).failed.load(std::memory_order_seq_cst);
    if (code != 0) {
      return FailureNotice{code, area(place).why.data()};
    }
  }
  return std::nullopt;
}

/// Requires that this rank published a failure before: a member that begins the call from now on finds that failure
/// before it uses any buffer, because it stores its stamp before it looks.
bool DirectState::may_still_use(Rank place, std::uint64_t sequence) const {
  const Area& theirs = area(place);
  return place != rank_ && theirs.slots[sequence % 2].stamp.load() == sequence &&
         theirs.failed.load() == 0 && theirs.finished.load() < sequence;
}

std::string DirectState::last_call_of(Rank place) const {
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

}  // namespace trireme::comm
