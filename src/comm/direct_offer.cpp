// DirectOp's beginning: a rank says what it called and where its data is, and sees what the others say.
#include <algorithm>

#include <fmt/format.h>

#include "comm/checks.h"
#include "comm/direct.h"
#include "comm/direct_limits.h"
#include "comm/world_core.h"

namespace trireme::comm {

void DirectOp::announce() {
  Slot& mine = slot(me_);
  if (is_checked()) {
    std::uint64_t& written = group_.written(record_.sequence);
    if (written != record_.fingerprint || record_.site[0] != '\0') {
      // Else it is there from last time, but for the number, which the stamp has.
      copy_record(record_, group_.area(me_).records[record_.sequence % 2]);
      written = record_.fingerprint;
    }
    mine.fingerprint = compared(record_);
  }
  mine.input_offer = Offer::Nothing;
  mine.output_offer = Offer::Nothing;
  if (offers(me_)) {
    offer_input(mine);
  }
  if (may_be_shared() && gets_result(me_)) {
    offer_output(mine);
  }
  if (is_put_to(me_) && should_be_fetched()) {
    offer_address(mine);
  }
  // Where every pair has its own size, what this rank has stands for all.
  const std::int64_t bytes =
      std::max(geometry_.bytes(), static_cast<std::int64_t>(call_.input.size()));
  if (me_ == 0 && bytes > kCombineAlone) {
    mine.staging.store(group_.staging().propose(call_.operation, bytes), std::memory_order_relaxed);
    mine.sharing = way_to_share();
  }
  if (!geometry_.received.empty()) {
    std::ranges::copy(geometry_.listed, group_.area(me_).sends(record_.sequence));
    std::ranges::copy(geometry_.received, group_.area(me_).receives(record_.sequence));
  }
  mine.stamp.store(record_.sequence, std::memory_order_seq_cst);
  group_.ring_members();
}

/// How all ranks shall write to outputs that all see. Results that were combined from all inputs just now had best stay in
/// the caches; whether a copy had, depends on where the cores are.
Stores DirectOp::way_to_share() {
  if (geometry_.bytes() > kStreamAbove) {
    return Stores::Streaming;
  }
  return is_combined_vector() ? Stores::Cached
                              : group_.sharing().propose(call_.operation, geometry_.bytes());
}

void DirectOp::offer_input(Slot& mine) {
  const auto bytes = static_cast<std::int64_t>(call_.input.size());
  // Peers read what this rank would overwrite: an all-to-all in place needs a copy first.
  const bool clobbers =
      call_.operation == Operation::Alltoall && call_.input.data() == call_.output.data();
  if (bytes > kCopyAnyway && !clobbers) {
    const auto place = group_.world().memory().place_of(call_.input.data(), call_.input.size());
    if (place && !(is_combined_vector() && bytes <= kCombineAlone)) {
      mine.input = *place;
      mine.input_offer = Offer::Buffer;
      return;
    }
  }
  if (bytes >= kFetchFrom && !clobbers && should_be_fetched()) {
    mine.input = reinterpret_cast<std::uint64_t>(call_.input.data());
    mine.input_offer = Offer::Address;
  } else if (is_staged_whole(call_.operation, ranks_, bytes)) {
    offer_copy(mine);
  }
}

/// Where what a rank has, or each part of it, goes to one reader: then a copy helps only that one, and costs more than
/// the system's way of reading another process does, up to a length.
bool DirectOp::should_be_fetched() const {
  return group_.fetches() && is_fetched(call_.operation, ranks_, longest_block());
}

/// In bytes.
std::int64_t DirectOp::longest_block() const {
  return geometry_.form == Form::Vector ? geometry_.bytes()
                                        : geometry_.longest_block(ranks_) * geometry_.element_bytes;
}

void DirectOp::offer_copy(Slot& mine) {
  static_assert(kWholeTo <= static_cast<std::int64_t>(kShotBytes));
  std::byte* copy = call_.input.size() <= kInlineBytes ? mine.data.data()
                                                       : group_.area(me_).shot(record_.sequence);
  const auto put = [&](std::size_t begin, std::size_t end) {
    if (begin < end) {
      copy_bytes(copy + begin, call_.input.data() + begin, end - begin, group_.shots());
    }
  };
  if (call_.operation == Operation::Reduce && me_ == call_.root) {
    mine.input_offer = Offer::Withheld;
    return;
  }
  mine.input_offer = Offer::Copy;
  if (has_block_for_each() && call_.input.size() > kInlineBytes) {
    const Extent own = geometry_.block(me_);
    put(0, static_cast<std::size_t>(own.offset * geometry_.element_bytes));
    put(static_cast<std::size_t>((own.offset + own.length) * geometry_.element_bytes),
        call_.input.size());
  } else {
    put(0, call_.input.size());
  }
}

void DirectOp::offer_output(Slot& mine) {
  const auto place = group_.world().memory().place_of(call_.output.data(), call_.output.size());
  if (place) {
    mine.output = *place;
    mine.output_offer = Offer::Buffer;
  }
}

/// Of the output, if peers cannot see it.
void DirectOp::offer_address(Slot& mine) {
  if (!group_.world().memory().place_of(call_.output.data(), call_.output.size())) {
    mine.output = reinterpret_cast<std::uint64_t>(call_.output.data());
    mine.output_offer = Offer::Address;
  }
}

bool DirectOp::all_here() {
  for (; seen_ < ranks_; ++seen_) {
    if (seen_ != me_ && awaits(seen_) &&
        slot(seen_).stamp.load(std::memory_order_acquire) != record_.sequence) {
      return false;
    }
  }
  survey();
  if (!early_) {
    group_.saw_all_begin(record_.sequence);
  }
  return true;
}

/// What all have said: throws if a rank called something else, and decides which way to go. Every rank
/// comes to the same decision, as all look at the same slots.
void DirectOp::survey() {
  bool all_offered = true;
  bool all_copies = true;
  bool all_readable = true;
  bool all_outputs = true;
  const std::uint64_t fingerprint = compared(record_);
  for (Rank r = 0; r < ranks_; ++r) {
    if (!awaits(r)) {
      continue;
    }
    const Slot& s = slot(r);
    if (is_checked() && s.fingerprint != fingerprint) {
      fail_mismatch();
    }
    const Offer offer = s.input_offer;
    all_offered = all_offered && (offer != Offer::Nothing || !offers(r));
    all_copies = all_copies && (offer == Offer::Copy || offer == Offer::Withheld || early_);
    all_readable = all_readable && offer != Offer::Withheld;
    someone_waits_ = someone_waits_ || offer == Offer::Buffer || offer == Offer::Address;
    all_outputs = all_outputs && (s.output_offer == Offer::Buffer || !gets_result(r));
  }
  if (is_checked()) {
    group_.world().require_not_given_up();
  }
  if (is_checked() && !geometry_.received.empty()) {
    check_tables();
  }
  // The root of a reduce that keeps its input to itself combines alone, whatever the others offer.
  if (is_combined_vector() && !all_copies && all_readable) {
    way_ = all_offered && all_outputs ? Way::Share : Way::Chunked;
  } else if (!is_combined_vector() && may_be_shared() && all_outputs && is_source_seen()) {
    way_ = Way::Share;
    someone_waits_ = true;
  } else {
    way_ = all_offered ? Way::Read : Way::Chunked;
  }
}

/// Whether each rank sees what it is to copy into others' outputs.
bool DirectOp::is_source_seen() const {
  return call_.operation != Operation::Broadcast || slot(call_.root).input_offer == Offer::Buffer;
}

void DirectOp::fail_mismatch() {
  const auto differ = [](const std::vector<Witness>& witnesses) {
    return !mismatch_culprits(witnesses).empty();
  };
  std::vector<Witness> witnesses = witnesses_of_this();
  std::uint64_t sequence = record_.sequence;
  // If all agree on this call, one before it was another on each side, and nobody looked at both.
  for (std::uint64_t back = kEarly / 2; back > 0 && !differ(witnesses); --back) {
    if (record_.sequence > back) {
      sequence = record_.sequence - back;
      witnesses = witnesses_of_earlier(sequence);
    }
  }
  if (!differ(witnesses)) {
    group_.fail(CommFault::Mismatch, {},
                fmt::format("call #{}, {}: the ranks disagree on a call before it, of those that a "
                            "rank may leave before the others come",
                            record_.sequence, to_text(record_)));
  }
  group_.fail(CommFault::Mismatch, mismatch_culprits(witnesses),
              mismatch_text(sequence, witnesses));
}

/// Who has come, and what they called.
std::vector<Witness> DirectOp::witnesses_of_this() const {
  std::vector<Witness> witnesses;
  witnesses.reserve(static_cast<std::size_t>(ranks_));
  for (Rank r = 0; r < ranks_; ++r) {
    const bool here = r == me_ || slot(r).stamp.load(std::memory_order_acquire) == record_.sequence;
    witnesses.push_back({group_.members()[static_cast<std::size_t>(r)], here,
                         here ? group_.area(r).records[record_.sequence % 2] : Record{}});
  }
  return witnesses;
}

/// What those who have come to this call had called in one before, if they left that early.
std::vector<Witness> DirectOp::witnesses_of_earlier(std::uint64_t sequence) const {
  std::vector<Witness> witnesses = witnesses_of_this();
  for (Rank r = 0; r < ranks_; ++r) {
    Witness& witness = witnesses[static_cast<std::size_t>(r)];
    if (witness.known) {
      witness.record = group_.area(r).early[sequence % kEarly];
      witness.known = witness.record.sequence == sequence;
    }
  }
  return witnesses;
}

/// All-to-all with sizes of their own: what a rank has for another must be what that one expects.
void DirectOp::check_tables() const {
  const auto world = [&](Rank r) { return group_.members()[static_cast<std::size_t>(r)]; };
  for (Rank from = 0; from < ranks_; ++from) {
    for (Rank to = 0; to < ranks_; ++to) {
      const std::int64_t sent = group_.area(from).sends(record_.sequence)[to].length;
      const std::int64_t expected = group_.area(to).receives(record_.sequence)[from].length;
      if (sent != expected) {
        group_.fail(CommFault::Mismatch, {world(from), world(to)},
                    fmt::format("call #{}: alltoall: rank {} sends {} elements to rank {}, which "
                                "expects {}",
                                record_.sequence, world(from), sent, world(to), expected));
      }
    }
  }
}

}  // namespace trireme::comm
