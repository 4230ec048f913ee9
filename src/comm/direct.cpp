#include "comm/direct.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "comm/direct_limits.h"
#include "comm/world_core.h"

namespace trireme::comm {

DirectOp::DirectOp(GroupCore& group, const Call& call, const Geometry& geometry,
                   const Record& record)
    : group_(group),
      call_(call),
      geometry_(geometry),
      record_(record),
      me_(group.rank()),
      ranks_(group.size()),
      early_(has_root(call.operation) && geometry.bytes() <= kCopyAnyway) {}

Progress DirectOp::advance() {
  try {
    const Progress progress = go_on();
    if (progress == Progress::Done && early_) {
      group_.finish_early(record_);
    } else if (progress == Progress::Done) {
      group_.finish(record_.sequence);
    }
    return progress;
  } catch (const std::exception& error) {
    group_.abandon(call_, error.what());  // a user's reduction that threw; else all know already
    withdraw();
    throw;
  }
}

/// The call ends with an error: peers that are still reading or writing this rank's buffers are waited
/// for, as the caller may free them.
void DirectOp::withdraw() noexcept {
  const bool lends = lends_input() || slot(me_).output_offer != Offer::Nothing;
  if (state_ != State::Begin && lends) {
    group_.await_release(record_.sequence);
  }
}

Progress DirectOp::go_on() {
  switch (state_) {
    case State::Begin:
      if (!group_.may_begin(record_.sequence)) {
        if (!group_.has_seen_all_begin(record_.sequence - 2)) {
          return Progress::Stuck;
        }
        // Who saw all begin does not ring when it is done, which it will be in a moment.
        std::this_thread::yield();
        return Progress::Moved;
      }
      announce();
      state_ = State::Gathering;
      [[fallthrough]];
    case State::Gathering:
      return all_here() ? begin_work() : Progress::Stuck;
    case State::Pipeline:
      return advance_pipeline();
    case State::Leaving:
      return leave();
  }
  return Progress::Stuck;
}

// Who depends on whom.

bool DirectOp::is_combined_vector() const {
  return call_.operation == Operation::Allreduce || call_.operation == Operation::Reduce;
}

/// Whether a rank has data for others.
bool DirectOp::offers(Rank rank) const {
  switch (call_.operation) {
    case Operation::Broadcast:
    case Operation::Scatter:
      return rank == call_.root;
    case Operation::Gather:
      return rank != call_.root;
    case Operation::Barrier:
      return false;
    default:
      return true;
  }
}

/// Whether one rank reads what another offers.
bool DirectOp::reads(Rank reader, Rank source) const {
  switch (call_.operation) {
    case Operation::Broadcast:
    case Operation::Scatter:
      return source == call_.root;
    case Operation::Gather:
      return reader == call_.root;
    case Operation::Barrier:
      return false;
    default:
      return true;
  }
}

/// Whether others may write to what this rank gets, where they have it in their own memory.
bool DirectOp::is_put_to(Rank rank) const {
  if (call_.operation == Operation::Gather) {
    return rank == call_.root;
  }
  return rank != call_.root && is_halved(call_.operation, ranks_, longest_block());
}

/// Whether this rank waits for another to come, and checks what it called.
bool DirectOp::awaits(Rank rank) const {
  const bool from_root =
      call_.operation == Operation::Broadcast || call_.operation == Operation::Scatter;
  return !early_ || (from_root ? rank : me_) == call_.root;
}

/// Whether a rank gets the vector that is combined, or put together, or broadcast.
bool DirectOp::gets_result(Rank rank) const {
  switch (call_.operation) {
    case Operation::Allreduce:
    case Operation::Allgather:
      return true;
    case Operation::Broadcast:
      return rank != call_.root;
    default:
      return rank == call_.root;
  }
}

/// Whether ranks write parts of the result into one another's outputs, if they can. All say the same.
bool DirectOp::may_be_shared() const {
  return is_combined_vector() ? geometry_.bytes() > kCombineAlone
                              : is_spread(call_.operation, ranks_, geometry_.bytes());
}

/// Whether an input has a block for each rank, rather than the same for all.
bool DirectOp::has_block_for_each() const {
  return call_.operation == Operation::Scatter || call_.operation == Operation::ReduceScatter ||
         call_.operation == Operation::Alltoall;
}

/// Whether peers use this rank's own input, not a copy made for them.
bool DirectOp::lends_input() const {
  const Offer offer = slot(me_).input_offer;
  return offer == Offer::Buffer || offer == Offer::Address;
}

void DirectOp::cut_windows() {
  unit_ = geometry_.form == Form::Vector ? geometry_.count : geometry_.longest_block(ranks_);
  if (!geometry_.received.empty()) {
    for (Rank r = 0; r < ranks_; ++r) {
      for (Rank d = 0; d < ranks_; ++d) {
        unit_ = std::max(unit_, group_.area(r).sends(record_.sequence)[d].length);
      }
    }
  }
  window_length_ = unit_;
  if (way_ == Way::Chunked) {
    const std::int64_t parts = has_block_for_each() ? ranks_ : 1;
    const std::int64_t room = static_cast<std::int64_t>(kChunkBytes) / parts / kLine * kLine;
    const std::int64_t needed = (unit_ * geometry_.element_bytes + kLine - 1) / kLine * kLine;
    window_length_ = std::max<std::int64_t>(1, std::min(room, needed) / geometry_.element_bytes);
    chunk_bytes_ = std::max(kLine, parts * window_length_ * geometry_.element_bytes);
  }
  windows_ = unit_ == 0 ? 0 : (unit_ + window_length_ - 1) / window_length_;
}

/// Chunks follow those of the call before. All ranks place them alike, as all know how long they are.
void DirectOp::place_chunks() {
  const std::int64_t places = static_cast<std::int64_t>(kRoundBytes) / chunk_bytes_;
  first_place_ = (group_.chunks_to() + chunk_bytes_ - 1) / chunk_bytes_ % places;
  if (windows_ > 0) {
    group_.chunks_to() = place_of(windows_ - 1) + chunk_bytes_;
  }
}

Progress DirectOp::begin_work() {
  cut_windows();
  stores_ =
      static_cast<std::int64_t>(std::max(call_.input.size(), call_.output.size())) > kStreamAbove
          ? Stores::Streaming
          : Stores::Cached;
  if (way_ == Way::Chunked) {
    group_.sharing().drop();
    group_.map_staging();
    place_chunks();
    group_.staging().begin(slot(0).staging.load(std::memory_order_relaxed));
    state_ = State::Pipeline;
    return advance_pipeline();
  }
  group_.staging().drop();
  if (way_ == Way::Share) {
    group_.sharing().begin(slot(0).sharing);
    stores_ = slot(0).sharing;
  } else {
    group_.sharing().drop();
  }
  if (windows_ > 0) {
    work(window(0));
  }
  if (!someone_waits_) {
    return Progress::Done;
  }
  tell(Stage::Worked, 1);
  state_ = State::Leaving;
  return leave();
}

Progress DirectOp::leave() {
  if (!may_leave()) {
    return Progress::Stuck;
  }
  if (way_ == Way::Share) {
    group_.sharing().end();
  }
  return Progress::Done;
}

bool DirectOp::may_leave() const {
  if (way_ == Way::Share) {
    if (call_.operation == Operation::Gather && me_ != call_.root) {
      return true;  // nobody else touches its buffers
    }
    for (Rank r = 0; r < ranks_; ++r) {
      if (!reached(r, Stage::Worked, 1)) {
        return false;
      }
    }
    return true;
  }
  const bool is_read = !lends_input() || readers_reached(Stage::Worked, 1);
  const bool is_written =
      slot(me_).output_offer != Offer::Address || sources_reached(Stage::Worked, 1);
  return is_read && is_written;
}

// The pipeline of chunks. Chunk k may be staged once everyone who reads it is done with chunk k - 2,
// worked on once it is staged everywhere, and its results taken once all have worked on it.

Progress DirectOp::advance_pipeline() {
  bool moved = false;
  if (staged_ < windows_ && readers_reached(Stage::Worked, staged_ - 1)) {
    if (me_ != 0) {
      group_.staging().follow(slot(0).staging.load(std::memory_order_relaxed));
    }
    if (offers(me_)) {
      stage(window(staged_));
    }
    tell(Stage::Staged, ++staged_);
    moved = true;
  }
  const bool results = is_combined_vector();
  if (worked_ < staged_ && sources_reached(Stage::Staged, worked_ + 1) &&
      (!results || readers_reached(Stage::Taken, worked_ - 1))) {
    work(window(worked_));
    tell(Stage::Worked, ++worked_);
    if (me_ == 0) {
      lead_passing();
    }
    moved = true;
  }
  if (results && taken_ < worked_ && sources_reached(Stage::Worked, taken_ + 1)) {
    if (gets_result(me_)) {
      take(window(taken_));
    }
    tell(Stage::Taken, ++taken_);
    moved = true;
  }
  const std::int64_t finished = results ? taken_ : worked_;
  if (finished == windows_) {
    group_.staging().end();
    return Progress::Done;
  }
  return moved ? Progress::Moved : Progress::Stuck;
}

/// The first rank says how all write on, a part of a long call after the other. The last part has what is left over.
void DirectOp::lead_passing() {
  const bool is_part = worked_ % kPartWindows == 0 && windows_ - worked_ >= kPartWindows;
  const double share =
      static_cast<double>(kPartWindows * window_length_) / static_cast<double>(unit_);
  const Stores way = group_.staging().next_part(is_part ? share : 0);
  if (way != slot(0).staging.load(std::memory_order_relaxed)) {
    slot(0).staging.store(way, std::memory_order_relaxed);
  }
}

bool DirectOp::reached(Rank peer, Stage stage, std::int64_t chunks) const {
  return chunks <= 0 || group_.area(peer).clocks[static_cast<std::size_t>(stage)].load(
                            std::memory_order_acquire) >=
                            (record_.sequence << kChunkBits) + static_cast<std::uint64_t>(chunks);
}

/// Whether all who read from this rank have come so far; and all from whom it reads.
bool DirectOp::readers_reached(Stage stage, std::int64_t chunks) const {
  for (Rank r = 0; r < ranks_; ++r) {
    if (r != me_ && reads(r, me_) && !reached(r, stage, chunks)) {
      return false;
    }
  }
  return true;
}

bool DirectOp::sources_reached(Stage stage, std::int64_t chunks) const {
  for (Rank r = 0; r < ranks_; ++r) {
    if (r != me_ && reads(me_, r) && !reached(r, stage, chunks)) {
      return false;
    }
  }
  return true;
}

void DirectOp::tell(Stage stage, std::int64_t chunks) {
  group_.area(me_).clocks[static_cast<std::size_t>(stage)].store(
      (record_.sequence << kChunkBits) + static_cast<std::uint64_t>(chunks),
      std::memory_order_seq_cst);
  group_.ring_members();
}

/// Whether this rank waits for something that the other has not done.
bool DirectOp::is_missing(Rank r) const {
  if (r == me_) {
    return false;
  }
  if (state_ == State::Begin) {
    return group_.area(r).finished.load(std::memory_order_acquire) + 2 < record_.sequence;
  }
  if (state_ == State::Gathering) {
    return awaits(r) && slot(r).stamp.load(std::memory_order_acquire) != record_.sequence;
  }
  const Stage last =
      state_ == State::Pipeline && is_combined_vector() ? Stage::Taken : Stage::Worked;
  return !reached(r, last, state_ == State::Leaving ? 1 : windows_);
}

/// How far a rank is in its group: those that wait for another are ahead of it.
std::uint64_t DirectOp::progress_of(Rank rank) const {
  const Area& area = group_.area(rank);
  std::uint64_t sum = area.finished.load(std::memory_order_acquire);
  for (const Slot& slot : area.slots) {
    sum += slot.stamp.load(std::memory_order_acquire);
  }
  for (const auto& clock : area.clocks) {
    sum += clock.load(std::memory_order_acquire);
  }
  return sum;
}

std::string DirectOp::text() const {
  return fmt::format("call #{}, {}", record_.sequence, to_text(record_));
}

void DirectOp::check(Seconds /*stuck*/) {
  group_.world().progress();  // what was posted before must go out, also while this waits
  try {
    group_.check_members([this](Rank r) { return is_missing(r); }, [this] { return text(); });
  } catch (const CommError&) {
    withdraw();
    throw;
  }
}

/// Of those that are missing, the ones furthest behind: the others may be waiting for them.
void DirectOp::expire(Seconds stuck) {
  std::vector<Rank> late;
  for (Rank r = 0; r < ranks_; ++r) {
    if (!is_missing(r) || (!late.empty() && progress_of(r) > progress_of(late.front()))) {
      continue;
    }
    if (!late.empty() && progress_of(r) < progress_of(late.front())) {
      late.clear();
    }
    late.push_back(r);
  }
  try {
    group_.fail_late(late, stuck, text());
  } catch (const CommError&) {
    withdraw();
    throw;
  }
}

}  // namespace trireme::comm
