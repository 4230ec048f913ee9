#include "comm/direct/direct.h"

#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "comm/direct/direct_limits.h"

namespace trireme::comm {

DirectOp::DirectOp(const DirectContext& context, const Call& call, const Geometry& geometry,
                   const Record& record)
    : context_(context),
      state_(context.state),
      call_(call),
      record_(record),
      direct_(
          make_direct_call(call, geometry, context.op.members.rank(), context.op.members.size())),
      peers_(context.state, record.sequence) {}

Progress DirectOp::advance() {
  try {
    const Progress progress = run_steps();
    if (progress == Progress::Done && direct_.is_early) {
      state_.finish_early(record_);
    } else if (progress == Progress::Done) {
      state_.finish(record_.sequence);
    }
    return progress;
  } catch (const CommError&) {  // the others know already
    withdraw();
    throw;
  } catch (const std::exception& error) {  // a user's reduction that threw
    context_.op.failures.abandon(call_, error.what());
    withdraw();
    throw;
  }
}

/// The call ends with an error: waits for peers that still read or write this rank's buffers, because the caller may
/// free them.
void DirectOp::withdraw() noexcept {
  if (progress_.phase != Phase::Begin && progress_.mine.lends()) {
    context_.op.failures.await_release(record_.sequence);
  }
}

Progress DirectOp::run_steps() {
  for (;;) {
    switch (steps().next(progress_)) {
      case DirectStep::Wait:
        return progress_.phase == Phase::Begin ? await_begin() : Progress::Stuck;
      case DirectStep::Announce:
        announce();
        record(DirectStep::Announce);
        break;
      case DirectStep::Choose:
        choose_path();
        break;
      case DirectStep::Stage:
        stage(windows_.at(progress_.staged));
        record(DirectStep::Stage);
        return Progress::Moved;
      case DirectStep::Work:
        if (windows_.count > 0) {
          work(windows_.at(progress_.worked));
        }
        record(DirectStep::Work);
        if (progress_.phase == Phase::Pipeline) {
          update_stores();
          return Progress::Moved;
        }
        break;
      case DirectStep::Take:
        take(windows_.at(progress_.taken));
        record(DirectStep::Take);
        return Progress::Moved;
      case DirectStep::Finish:
        end_stores();
        return Progress::Done;
    }
  }
}

/// This call reuses the slot of the call before the last, which a peer has not finished.
Progress DirectOp::await_begin() {
  // Peers that saw everyone start that call do not ring the bell when they finish it, which should be immediately. One
  // that stopped or died right there never finishes: after a while this becomes a wait like any other, with checks and
  // a deadline.
  constexpr int kMaxYields = 1000;
  if (!state_.has_seen_all_begin(record_.sequence - 2) || yields_ == kMaxYields) {
    return Progress::Stuck;
  }
  ++yields_;
  std::this_thread::yield();
  return Progress::Moved;
}

void DirectOp::publish(Tick tick) {
  state_.area(direct_.me)
      .clocks[tick.stage]
      .store(peers_.clock_at(tick.chunks), std::memory_order_seq_cst);
  state_.ring_members();
}

/// Rank 0 chooses the kind of stores for all ranks in the next part of a long call. The last part takes the remainder.
void DirectOp::update_stores() {
  if (direct_.me != 0) {
    return;
  }
  const std::int64_t worked = progress_.worked;
  const bool is_part = worked % kPartWindows == 0 && windows_.count - worked >= kPartWindows;
  const double share =
      static_cast<double>(kPartWindows * windows_.length) / static_cast<double>(windows_.unit);
  const Stores stores = state_.staging().next_part(is_part ? share : 0);
  if (stores != slot(0).staging.load(std::memory_order_relaxed)) {
    slot(0).staging.store(stores, std::memory_order_relaxed);
  }
}

void DirectOp::end_stores() {
  if (progress_.path == Path::Chunked) {
    state_.staging().end();
  } else if (progress_.path == Path::Share) {
    state_.sharing().end();
  }
}

/// Whether this rank waits for `r`.
bool DirectOp::is_missing(Rank r) const {
  if (r == direct_.me) {
    return false;
  }
  if (progress_.phase == Phase::Begin) {
    return state_.area(r).finished.load(std::memory_order_acquire) + 2 < record_.sequence;
  }
  return steps().is_missing(progress_, r);
}

/// A rank's progress in its group: a rank that waits for another is ahead of it.
std::uint64_t DirectOp::progress_of(Rank rank) const {
  const Area& area = state_.area(rank);
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
  context_.op.messages.progress();  // messages posted earlier must go out even while this waits
  try {
    context_.op.failures.check_members([this](Rank r) { return is_missing(r); },
                                       [this] { return text(); });
  } catch (const CommError&) {
    withdraw();
    throw;
  }
}

/// Blames the missing ranks that are furthest behind: the others may be waiting for them.
void DirectOp::expire(Seconds stuck) {
  std::vector<Rank> late;
  for (Rank r = 0; r < direct_.ranks; ++r) {
    if (!is_missing(r) || (!late.empty() && progress_of(r) > progress_of(late.front()))) {
      continue;
    }
    if (!late.empty() && progress_of(r) < progress_of(late.front())) {
      late.clear();
    }
    late.push_back(r);
  }
  try {
    context_.op.failures.fail_late(late, stuck, text());
  } catch (const CommError&) {
    withdraw();
    throw;
  }
}

}  // namespace trireme::comm
