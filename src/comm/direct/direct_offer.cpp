// The start of DirectOp: a rank announces its call and the location of its data, and reads the others' announcements.
#include <algorithm>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "comm/checks.h"
#include "comm/direct/direct.h"
#include "comm/direct/direct_limits.h"

namespace trireme::comm {

void DirectOp::announce() {
  Slot& mine = slot(direct_.me);
  if (is_checked()) {
    std::uint64_t& written = state_.written(record_.sequence);
    if (written != record_.fingerprint || record_.site[0] != '\0') {
      // Otherwise the previous record is still valid, except for the number, which is in the stamp.
      copy_record(record_, state_.area(direct_.me).records[record_.sequence % 2]);
      written = record_.fingerprint;
    }
    mine.fingerprint = compared(record_);
  }
  Visibility visibility;
  if (direct_.may_lend()) {
    visibility = publish_buffers(mine);
    propose_stores(mine);
  }
  progress_.mine = direct_.offers(visibility);
  mine.input_offer = progress_.mine.input;
  mine.output_offer = progress_.mine.output;
  if (progress_.mine.input == Offer::Copy) {
    copy_input();
  }
  if (!direct_.geometry->received.empty()) {
    Area& area = state_.area(direct_.me);
    std::ranges::copy(direct_.geometry->listed, area.sends(record_.sequence));
    std::ranges::copy(direct_.geometry->received, area.receives(record_.sequence));
  }
  mine.stamp.store(record_.sequence, std::memory_order_seq_cst);
  state_.ring_members();
}

/// Records where this rank's buffers are, if peers may use them: in shared memory, or at which address.
Visibility DirectOp::publish_buffers(Slot& mine) const {
  Visibility visibility{.can_fetch = state_.can_fetch()};
  const HostMemory& memory = context_.memory;
  if (direct_.may_lend_input()) {
    const auto place = memory.place_of(call_.input.data(), call_.input.size());
    visibility.input = place.has_value();
    mine.input = place.value_or(reinterpret_cast<std::uint64_t>(call_.input.data()));
  }
  if (direct_.may_lend_output(visibility)) {
    const auto place = memory.place_of(call_.output.data(), call_.output.size());
    visibility.output = place.has_value();
    mine.output = place.value_or(reinterpret_cast<std::uint64_t>(call_.output.data()));
  }
  return visibility;
}

/// Rank 0 decides for all how to write to staging memory and to peers' outputs.
void DirectOp::propose_stores(Slot& mine) {
  // If every pair has its own size, this rank's size stands in for all.
  const std::int64_t bytes = std::max(direct_.geometry->bytes(), direct_.input_bytes);
  if (direct_.me == 0 && bytes > kCombineAlone) {
    mine.staging.store(state_.staging().propose(call_.operation, bytes), std::memory_order_relaxed);
    mine.sharing = stores_for_sharing();
  }
}

/// Results just combined from all inputs are best kept in cache; whether a copy is depends on which cores the ranks run
/// on.
Stores DirectOp::stores_for_sharing() {
  const std::int64_t bytes = direct_.geometry->bytes();
  if (bytes > kStreamAbove) {
    return Stores::Streaming;
  }
  return direct_.combines_vector() ? Stores::Cached
                                   : state_.sharing().propose(call_.operation, bytes);
}

/// All awaited ranks have announced. Throws if one of them made a different call.
void DirectOp::choose_path() {
  PathChoice choice(direct_);
  const std::uint64_t fingerprint = compared(record_);
  for (Rank r = 0; r < direct_.ranks; ++r) {
    if (direct_.awaits(r)) {
      if (is_checked() && slot(r).fingerprint != fingerprint) {
        fail_mismatch();
      }
      choice.add(r, peers_.offers(r));
    }
  }
  if (is_checked()) {
    require_not_declared_dead();
  }
  if (is_checked() && !direct_.geometry->received.empty()) {
    check_tables();
  }
  if (choice.uses_lent_memory() && state_.find_failure()) {
    throw_failure();
  }
  if (!direct_.is_early) {
    state_.saw_all_begin(record_.sequence);
  }
  progress_.choose(choice);
  prepare_work();
}

/// This rank is late: others have left the call with an error, and their buffers may be gone (see withdraw()).
void DirectOp::throw_failure() {
  context_.op.failures.check_members([](Rank) { return false; }, [this] { return text(); });
}

void DirectOp::prepare_work() {
  windows_ = make_windows(direct_, progress_.path, longest_block_of_all(direct_, peers_));
  progress_.windows = windows_.count;
  const auto longest = static_cast<std::int64_t>(std::max(call_.input.size(), call_.output.size()));
  stores_ = longest > kStreamAbove ? Stores::Streaming : Stores::Cached;
  if (progress_.path == Path::Chunked) {
    state_.sharing().drop();
    state_.map_staging();
    state_.chunks_to() = windows_.place_after(state_.chunks_to());
    state_.staging().begin(slot(0).staging.load(std::memory_order_relaxed));
    return;
  }
  state_.staging().drop();
  if (progress_.path == Path::Share) {
    state_.sharing().begin(slot(0).sharing);
    stores_ = slot(0).sharing;
  } else {
    state_.sharing().drop();
  }
}

void DirectOp::fail_mismatch() {
  const auto differ = [](const IndexedVector<Rank, Witness>& witnesses) {
    return !mismatch_culprits(witnesses.items()).empty();
  };
  IndexedVector<Rank, Witness> witnesses = witnesses_of_this();
  std::uint64_t sequence = record_.sequence;
  // If all agree on this call, an earlier one differed, and no rank compared both sides.
  for (std::uint64_t back = kEarly / 2; back > 0 && !differ(witnesses); --back) {
    if (record_.sequence > back) {
      sequence = record_.sequence - back;
      witnesses = witnesses_of_earlier(sequence);
    }
  }
  if (!differ(witnesses)) {
    context_.op.failures.fail(
        CommFault::Mismatch, {},
        fmt::format("call #{}, {}: the ranks disagree on a call before it, one that a "
                    "rank may leave before the others arrive",
                    record_.sequence, to_text(record_)));
  }
  context_.op.failures.fail(CommFault::Mismatch, mismatch_culprits(witnesses.items()),
                            mismatch_text(sequence, witnesses.items()));
}

/// The ranks that announced this call, and what they called.
IndexedVector<Rank, Witness> DirectOp::witnesses_of_this() const {
  IndexedVector<Rank, Witness> witnesses;
  witnesses.reserve(direct_.ranks);
  for (Rank r = 0; r < direct_.ranks; ++r) {
    const bool here =
        r == direct_.me || slot(r).stamp.load(std::memory_order_acquire) == record_.sequence;
    witnesses.push_back({context_.op.members.world_rank(r), here,
                         here ? state_.area(r).records[record_.sequence % 2] : Record{}});
  }
  return witnesses;
}

/// What those who announced this call had called in one before, if they left that early.
IndexedVector<Rank, Witness> DirectOp::witnesses_of_earlier(std::uint64_t sequence) const {
  IndexedVector<Rank, Witness> witnesses = witnesses_of_this();
  for (Rank r = 0; r < direct_.ranks; ++r) {
    Witness& witness = witnesses[r];
    if (witness.known) {
      witness.record = state_.area(r).early[sequence % kEarly];
      witness.known = witness.record.sequence == sequence;
    }
  }
  return witnesses;
}

/// All-to-all with counts: the length that a rank sends must match the length that the receiver expects.
void DirectOp::check_tables() const {
  const auto world = [&](Rank r) { return context_.op.members.world_rank(r); };
  for (Rank from = 0; from < direct_.ranks; ++from) {
    for (Rank to = 0; to < direct_.ranks; ++to) {
      const std::int64_t sent = state_.area(from).sends(record_.sequence)[to].length;
      const std::int64_t expected = state_.area(to).receives(record_.sequence)[from].length;
      if (sent != expected) {
        context_.op.failures.fail(
            CommFault::Mismatch, {world(from), world(to)},
            fmt::format("call #{}: alltoall: rank {} sends {} elements to rank {}, which "
                        "expects {}",
                        record_.sequence, world(from), sent, world(to), expected));
      }
    }
  }
}

}  // namespace trireme::comm
