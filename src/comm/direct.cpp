#include "comm/direct.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "comm/checks.h"
#include "comm/direct_limits.h"
#include "comm/world_core.h"

namespace trireme::comm {
namespace {

constexpr std::int64_t kLine = 64;

// Staged data is written past the caches, unless this host was measured to be faster otherwise (short pieces excepted, see kernels.h). Lines that a peer read
// last time are in its cache, and to take each back before writing costs more than sending it to memory
// does: measured with two ranks and 256 KiB, 9 us to write past the caches and 14 to read again, against
// 28 to 115 and 6 to 14.

}  // namespace

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
    group_.abandon(error.what());  // a user's reduction that threw; else all know already
    withdraw();
    throw;
  }
}

/// The call ends with an error: peers that are still reading or writing this rank's buffers are waited
/// for, as the caller may free them.
void DirectOp::withdraw() noexcept {
  const bool lends = lends_input() || slot(me_).output_offer == Offer::Buffer;
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
      return may_leave() ? Progress::Done : Progress::Stuck;
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

/// Whether this rank waits for another to come, and checks what it called.
bool DirectOp::awaits(Rank rank) const {
  const bool from_root =
      call_.operation == Operation::Broadcast || call_.operation == Operation::Scatter;
  return !early_ || (from_root ? rank : me_) == call_.root;
}

/// Whether a rank gets the vector that is combined.
bool DirectOp::gets_result(Rank rank) const {
  return call_.operation == Operation::Allreduce || rank == call_.root;
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

// Beginning: say what this rank called and where its data is; see what the others say.

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
  if (is_combined_vector() && gets_result(me_) && geometry_.bytes() > kCombineAlone) {
    offer_output(mine);
  }
  if (!geometry_.received.empty()) {
    std::ranges::copy(geometry_.listed, group_.area(me_).sends(record_.sequence));
    std::ranges::copy(geometry_.received, group_.area(me_).receives(record_.sequence));
  }
  mine.stamp.store(record_.sequence, std::memory_order_seq_cst);
  group_.ring_members();
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
  } else if (bytes <= static_cast<std::int64_t>(kShotBytes)) {
    offer_copy(mine);
  }
}

/// Where what a rank has, or each part of it, goes to one reader: then a copy helps only that one, and costs more than
/// the system's way of reading another process does, up to a length.
bool DirectOp::should_be_fetched() const {
  const std::int64_t bytes = geometry_.longest_block(ranks_) * geometry_.element_bytes;
  return group_.fetches() && is_fetched(call_.operation, ranks_, bytes);
}

void DirectOp::offer_copy(Slot& mine) {
  std::byte* copy = call_.input.size() <= kInlineBytes ? mine.data.data()
                                                       : group_.area(me_).shot(record_.sequence);
  if (!call_.input.empty()) {
    copy_bytes(copy, call_.input.data(), call_.input.size(), group_.staging());
  }
  mine.input_offer = Offer::Copy;
}

void DirectOp::offer_output(Slot& mine) {
  const auto place = group_.world().memory().place_of(call_.output.data(), call_.output.size());
  if (place) {
    mine.output = *place;
    mine.output_offer = Offer::Buffer;
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
    all_copies = all_copies && (offer == Offer::Copy || early_);
    someone_waits_ = someone_waits_ || offer == Offer::Buffer || offer == Offer::Address;
    all_outputs = all_outputs && (s.output_offer == Offer::Buffer || !gets_result(r));
  }
  if (is_checked()) {
    group_.world().require_not_given_up();
  }
  if (is_checked() && !geometry_.received.empty()) {
    check_tables();
  }
  if (is_combined_vector() && !all_copies) {
    way_ = all_offered && all_outputs ? Way::Share : Way::Chunked;
  } else {
    way_ = all_offered ? Way::Read : Way::Chunked;
  }
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
    const std::int64_t room =
        static_cast<std::int64_t>(kChunkBytes) / (has_block_for_each() ? ranks_ : 1);
    window_length_ = std::max<std::int64_t>(1, room / kLine * kLine / geometry_.element_bytes);
  }
  windows_ = unit_ == 0 ? 0 : (unit_ + window_length_ - 1) / window_length_;
}

Progress DirectOp::begin_work() {
  cut_windows();
  stores_ =
      static_cast<std::int64_t>(std::max(call_.input.size(), call_.output.size())) > kStreamAbove
          ? Stores::Streaming
          : Stores::Cached;
  if (way_ == Way::Chunked) {
    state_ = State::Pipeline;
    return advance_pipeline();
  }
  if (windows_ > 0) {
    work(window(0));
  }
  if (!someone_waits_) {
    return Progress::Done;
  }
  tell(Stage::Worked, 1);
  state_ = State::Leaving;
  return may_leave() ? Progress::Done : Progress::Stuck;
}

bool DirectOp::may_leave() const {
  if (way_ == Way::Share) {
    for (Rank r = 0; r < ranks_; ++r) {
      if (!reached(r, Stage::Worked, 1)) {
        return false;
      }
    }
    return true;
  }
  return !lends_input() || readers_reached(Stage::Worked, 1);
}

// The pipeline of chunks. Chunk k may be staged once everyone who reads it is done with chunk k - 2,
// worked on once it is staged everywhere, and its results taken once all have worked on it.

Progress DirectOp::advance_pipeline() {
  bool moved = false;
  if (staged_ < windows_ && readers_reached(Stage::Worked, staged_ - 1)) {
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
    return Progress::Done;
  }
  return moved ? Progress::Moved : Progress::Stuck;
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

// Where data is.

DirectOp::Window DirectOp::window(std::int64_t number) const {
  const std::int64_t begin = number * window_length_;
  return {begin, std::min(unit_, begin + window_length_), number};
}

/// The part of the window that `rank` combines: cut at cache lines, so that no two ranks write to
/// one.
Extent DirectOp::share_of(const Window& window, Rank rank) const {
  const std::int64_t line = std::max<std::int64_t>(1, kLine / geometry_.element_bytes);
  const std::int64_t lines = (window.length() + line - 1) / line;
  const auto edge = [&](std::int64_t r) {
    return window.begin + std::min(window.length(), lines * r / ranks_ * line);
  };
  return {edge(rank), edge(rank + 1) - edge(rank)};
}

std::byte* DirectOp::output_at(std::int64_t element) const {
  return call_.output.data() + element * geometry_.element_bytes;
}

const std::byte* DirectOp::input_at(std::int64_t element) const {
  return call_.input.data() + element * geometry_.element_bytes;
}

/// Where in `from`'s input the elements for this rank begin.
std::int64_t DirectOp::offered_offset(Rank from) const {
  switch (call_.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
      return geometry_.block(me_).offset;
    case Operation::Alltoall:
      return geometry_.received.empty() ? geometry_.block(me_).offset
                                        : group_.area(from).sends(record_.sequence)[me_].offset;
    default:
      return 0;
  }
}

/// The first byte of what `from` has for this rank in the window.
const std::byte* DirectOp::source(Rank from, const Window& window) const {
  const std::int64_t offset = (offered_offset(from) + window.begin) * geometry_.element_bytes;
  if (from == me_) {
    return call_.input.data() + offset;
  }
  if (way_ == Way::Chunked) {
    return group_.area(from).chunk(window.number) +
           (has_block_for_each() ? me_ * window_length_ * geometry_.element_bytes : 0);
  }
  Slot& theirs = slot(from);
  if (theirs.input_offer == Offer::Buffer) {
    const Rank world_rank = group_.members()[static_cast<std::size_t>(from)];
    return group_.world().memory().view(world_rank, theirs.input) + offset;
  }
  // How long the peer's whole input is decides where its copy lies; all ranks' inputs are alike, but
  // for all-to-all with sizes of their own.
  std::int64_t whole = geometry_.bytes();
  if (call_.operation == Operation::Allgather || call_.operation == Operation::Gather) {
    whole = geometry_.block(from).length * geometry_.element_bytes;
  } else if (!geometry_.received.empty()) {
    const Extent last = group_.area(from).sends(record_.sequence)[ranks_ - 1];
    whole = (last.offset + last.length) * geometry_.element_bytes;
  }
  const std::byte* copy = whole <= static_cast<std::int64_t>(kInlineBytes)
                              ? theirs.data.data()
                              : group_.area(from).shot(record_.sequence);
  return copy + offset;
}

// The work.

void DirectOp::copy(std::byte* to, const std::byte* from, std::int64_t elements) const {
  if (elements > 0 && to != from) {
    copy_bytes(to, from, static_cast<std::size_t>(elements * geometry_.element_bytes), stores_);
  }
}

void DirectOp::stage(const Window& window) {
  std::byte* chunk = group_.area(me_).chunk(window.number);
  const auto put = [&](std::int64_t first, std::int64_t length, std::byte* to) {
    if (length > 0) {
      copy_bytes(to, input_at(first), static_cast<std::size_t>(length * geometry_.element_bytes),
                 group_.staging());
    }
  };
  switch (call_.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
    case Operation::Alltoall:
      for (Rank d = 0; d < ranks_; ++d) {
        const Extent block = geometry_.block(d);
        if (d != me_ || call_.operation == Operation::Alltoall) {
          put(block.offset + window.begin, std::min(window.end, block.length) - window.begin,
              chunk + d * window_length_ * geometry_.element_bytes);
        }
      }
      return;
    case Operation::Allreduce:
    case Operation::Reduce: {
      const Extent mine = share_of(window, me_);
      put(window.begin, mine.offset - window.begin, chunk);
      const std::int64_t after = mine.offset + mine.length;
      put(after, window.end - after, chunk + (after - window.begin) * geometry_.element_bytes);
      return;
    }
    case Operation::Broadcast:
      put(window.begin, window.length(), chunk);
      return;
    default:  // a block of this rank's own
      put(window.begin, std::min(window.end, geometry_.block(me_).length) - window.begin, chunk);
  }
}

void DirectOp::work(const Window& window) {
  switch (call_.operation) {
    case Operation::Allreduce:
    case Operation::Reduce:
      if (way_ == Way::Read) {
        combine_whole();
      } else if (way_ == Way::Share) {
        combine_share(window);
      } else {
        combine_staged_share(window);
      }
      return;
    case Operation::ReduceScatter:
      combine_blocks(window);
      return;
    case Operation::Barrier:
      return;
    default:
      pull(window);
  }
}

void DirectOp::combine(std::int64_t count, Stores stores) {
  if (count <= 0) {
    return;
  }
  const Combine how{.dtype = call_.dtype,
                    .reduction = call_.options.reduction,
                    .user = call_.options.user,
                    .order = call_.options.order,
                    .divide_by = divisor(call_.options, ranks_)};
  combine_many(how, group_.inputs, group_.targets, count, stores);
}

/// Everything, by this rank for itself.
void DirectOp::combine_whole() {
  if (!gets_result(me_)) {
    return;
  }
  const Window all{0, unit_, 0};
  group_.inputs.clear();
  for (Rank r = 0; r < ranks_; ++r) {
    group_.inputs.push_back(source(r, all));
  }
  group_.targets.assign(1, call_.output.data());
  combine(unit_, stores_);
}

/// This rank's share of a vector that all see, into the outputs of all who want it.
void DirectOp::combine_share(const Window& window) {
  const Extent share = share_of(window, me_);
  group_.inputs.clear();
  group_.targets.clear();
  for (Rank r = 0; r < ranks_; ++r) {
    group_.inputs.push_back(source(r, {share.offset, share.offset + share.length, 0}));
    if (gets_result(r)) {
      const Rank world_rank = group_.members()[static_cast<std::size_t>(r)];
      group_.targets.push_back(group_.world().memory().view(world_rank, slot(r).output) +
                               share.offset * geometry_.element_bytes);
    }
  }
  combine(share.length, stores_);
}

/// This rank's share of a staged chunk: to its own output if it wants the result, and to where the
/// others take it from.
void DirectOp::combine_staged_share(const Window& window) {
  const Extent share = share_of(window, me_);
  const std::int64_t within = (share.offset - window.begin) * geometry_.element_bytes;
  group_.inputs.clear();
  for (Rank r = 0; r < ranks_; ++r) {
    group_.inputs.push_back(source(r, window) + within);
  }
  std::byte* result = group_.area(me_).result(window.number) + within;
  if (!gets_result(me_)) {
    group_.targets.assign(1, result);
    combine(share.length, group_.staging());
    return;
  }
  group_.targets.assign(1, output_at(share.offset));
  combine(share.length, stores_);
  if (call_.operation == Operation::Allreduce && share.length > 0) {
    copy_bytes(result, output_at(share.offset),
               static_cast<std::size_t>(share.length * geometry_.element_bytes), group_.staging());
  }
}

void DirectOp::combine_blocks(const Window& window) {
  const std::int64_t end = std::min(window.end, geometry_.block(me_).length);
  group_.inputs.clear();
  for (Rank r = 0; r < ranks_; ++r) {
    group_.inputs.push_back(source(r, window));
  }
  group_.targets.assign(1, output_at(window.begin));
  combine(end - window.begin, stores_);
}

/// Results that others made, from their staging memory.
void DirectOp::take(const Window& window) {
  for (Rank r = 0; r < ranks_; ++r) {
    if (r != me_) {
      const Extent share = share_of(window, r);
      copy(output_at(share.offset),
           group_.area(r).result(window.number) +
               (share.offset - window.begin) * geometry_.element_bytes,
           share.length);
    }
  }
}

void DirectOp::pull(const Window& window) {
  switch (call_.operation) {
    case Operation::Broadcast:
      if (me_ != call_.root) {
        copy(output_at(window.begin), source(call_.root, window), window.length());
      }
      return;
    case Operation::Scatter:
      pull_block(window, call_.root, {0, geometry_.block(me_).length});
      return;
    case Operation::Gather:
      if (me_ != call_.root) {
        return;
      }
      break;
    default:
      break;
  }
  // Each rank begins with another peer, so that they do not all read the same memory at once.
  for (Rank k = 0; k < ranks_; ++k) {
    const Rank from = (me_ + k) % ranks_;
    pull_block(
        window, from,
        geometry_.form == Form::Pairs ? geometry_.receive_block(from) : geometry_.block(from));
  }
}

/// What `from` has for this rank, to these elements of the output.
void DirectOp::pull_block(const Window& window, Rank from, Extent into) {
  const std::int64_t end = std::min(window.end, into.length);
  if (end <= window.begin) {
    return;
  }
  std::byte* to = output_at(into.offset + window.begin);
  if (from != me_ && way_ == Way::Read && slot(from).input_offer == Offer::Address) {
    const std::uint64_t address =
        slot(from).input +
        static_cast<std::uint64_t>((offered_offset(from) + window.begin) * geometry_.element_bytes);
    const Rank world_rank = group_.members()[static_cast<std::size_t>(from)];
    try {
      group_.world().memory().fetch(
          world_rank, address,
          {to, static_cast<std::size_t>((end - window.begin) * geometry_.element_bytes)});
    } catch (const Error& error) {
      group_.fail(
          CommFault::Died, {world_rank},
          fmt::format("call #{}, {}: {}", record_.sequence, to_text(record_), error.what()));
    }
  } else {
    copy(to, source(from, window), end - window.begin);
  }
}

void DirectOp::check(Seconds stuck) {
  group_.world().progress();  // what was posted before must go out, also while this waits
  const auto is_missing = [this](Rank r) {
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
  };
  try {
    group_.check_members(is_missing, stuck, [this] {
      return fmt::format("call #{}, {}", record_.sequence, to_text(record_));
    });
  } catch (const CommError&) {
    withdraw();
    throw;
  }
}

}  // namespace trireme::comm
