#include "comm/scheduled/scheduled.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes_moved.h"
#include "base/check.h"
#include "comm/checks.h"
#include "comm/direct/direct_limits.h"
#include "tensor/half.h"

namespace trireme::comm {
namespace {

/// How much is copied before checking again for arrivals.
constexpr std::int64_t kOwnPiece = std::int64_t{256} << 10;

}  // namespace

ScheduledOp::ScheduledOp(const ScheduledContext& context, const Call& call,
                         const Geometry& geometry, const Record& record, const Schedule& schedule,
                         std::uint64_t part)
    : context_(context),
      call_(call),
      geometry_(geometry),
      record_(record),
      schedule_(schedule),
      me_(context.op.members.rank()),
      part_(part),
      scratch_(context.op.scratch) {
  if (is_checked() && context.direct != nullptr && part == 0) {
    handshake_ = std::make_unique<DirectOp>(*context.direct, barrier_, no_data_, record);
  }
}

ScheduledOp::~ScheduledOp() {
  cancel_all();
}

void ScheduledOp::cancel_all() {
  Mailbox& mailbox = context_.op.messages.mailbox();
  for (Outgoing& send : sends_) {
    mailbox.cancel(send);
  }
  for (Arrival& arrival : receives_) {
    if (arrival.posted) {
      mailbox.cancel(arrival.message);
    }
  }
}

Progress ScheduledOp::advance() {
  if (handshake_) {
    const Progress progress = handshake_->advance();
    if (progress != Progress::Done) {
      return progress;
    }
    handshake_.reset();
  }
  if (!prepared_) {
    prepare();
    prepared_ = true;
    if (!schedule_.steps.empty()) {
      begin_step();
    }
  }
  context_.op.messages.progress();
  bool moved = false;
  while (step_ < schedule_.steps.size()) {
    moved = post_receives() || moved;
    if (!step_done()) {
      const std::uint64_t bytes = bytes_moved();
      moved = moved || bytes != bytes_moved_;
      bytes_moved_ = bytes;
      return moved || place_own() ? Progress::Moved : Progress::Stuck;
    }
    sends_.clear();
    receives_.clear();
    bytes_moved_ = 0;
    moved = true;
    ++step_;
    if (step_ < schedule_.steps.size()) {
      begin_step();
      context_.op.messages.progress();
    }
  }
  finish();
  return Progress::Done;
}

// Places.

Key ScheduledOp::key() const {
  return {context_.op.members.context(), (record_.sequence << 24) + (part_ << 20) + step_,
          Topic::Collective};
}

bool ScheduledOp::is_mine(Block block) const {
  switch (schedule_.layout) {
    case Layout::Replicas:
      return block == me_;
    case Layout::Pairs:
      return block % schedule_.ranks == me_;
    case Layout::Split:
      return geometry_.form != Form::Blocks || block / (schedule_.blocks / schedule_.ranks) == me_;
  }
  return false;
}

/// Where a block is in the whole vector (Split), in elements.
Extent ScheduledOp::extent(Block block) const {
  if (schedule_.layout == Layout::Replicas) {
    return {0, geometry_.count};
  }
  if (geometry_.form == Form::Vector || geometry_.form == Form::Nothing) {
    return block_extent(schedule_, geometry_.count, block);
  }
  if (geometry_.form == Form::Pairs) {
    const auto from = static_cast<Rank>(block / schedule_.ranks);
    const auto to = static_cast<Rank>(block % schedule_.ranks);
    // Only the two ranks know the size of such a block; no other rank sees it.
    return {0, from == me_ ? geometry_.block(to).length : geometry_.receive_block(from).length};
  }
  const Block pieces = schedule_.blocks / schedule_.ranks;
  const Extent whole = geometry_.block(static_cast<Rank>(block / pieces));
  const std::int64_t piece = block % pieces;
  const std::int64_t begin = whole.length * piece / pieces;
  return {whole.offset + begin, whole.length * (piece + 1) / pieces - begin};
}

/// Where the block's value is before the first step, or nothing if this rank has none.
const std::byte* ScheduledOp::first_place(Block block) const {
  const std::int64_t offset = extent(block).offset;
  switch (call_.operation) {
    case Operation::Broadcast:
    case Operation::Scatter:
      return me_ == call_.root ? input_ + offset * element_bytes_ : nullptr;
    case Operation::Gather:
    case Operation::Allgather:
      return is_mine(block) ? input_ + (offset - geometry_.block(me_).offset) * element_bytes_
                            : nullptr;
    case Operation::Alltoall:
      return block / schedule_.ranks == me_
                 ? input_ + geometry_.block(static_cast<Rank>(block % schedule_.ranks)).offset *
                                element_bytes_
                 : nullptr;
    case Operation::Barrier:
      return nullptr;
    default:
      return input_ + offset * element_bytes_;
  }
}

/// Where the block belongs in this rank's result, or nothing if it does not.
std::byte* ScheduledOp::result_place(Block block) {
  const std::int64_t offset = extent(block).offset;
  switch (call_.operation) {
    case Operation::Broadcast:
    case Operation::Allgather:
      return output_ + offset * element_bytes_;
    case Operation::Allreduce:
      return is_mine(block) ? output_ + offset * element_bytes_ : nullptr;
    case Operation::Reduce:
    case Operation::Gather:
      return me_ == call_.root ? output_ + offset * element_bytes_ : nullptr;
    case Operation::Scatter:
    case Operation::ReduceScatter:
      return is_mine(block) ? output_ + (offset - geometry_.block(me_).offset) * element_bytes_
                            : nullptr;
    case Operation::Alltoall:
      return is_mine(block)
                 ? output_ +
                       geometry_.receive_block(static_cast<Rank>(block / schedule_.ranks)).offset *
                           element_bytes_
                 : nullptr;
    case Operation::Barrier:
      return nullptr;
  }
  return nullptr;
}

/// Scratch for a block that only passes through: its place in a vector like the whole one, or separate memory if blocks
/// are not parts of one vector.
std::byte* ScheduledOp::passing_place(Block block) {
  if (schedule_.layout == Layout::Split) {
    if (whole_scratch_ == nullptr) {
      whole_scratch_ = scratch_.get(bytes_of(geometry_.count));
    }
    return whole_scratch_ + extent(block).offset * element_bytes_;
  }
  std::byte*& own = passing_[block];
  if (own == nullptr) {
    own = scratch_.get(bytes_of(extent(block).length));
  }
  return own;
}

std::byte* ScheduledOp::landing_place(Block block) {
  std::byte* result = result_place(block);
  return result != nullptr ? result : passing_place(block);
}

void ScheduledOp::prepare() {
  input_ = call_.input.data();
  output_ = call_.output.data();
  element_bytes_ = geometry_.element_bytes;
  combine_ = {.dtype = call_.dtype,
              .reduction = call_.options.reduction == Reduction::Average ? Reduction::Sum
                                                                         : call_.options.reduction,
              .user = call_.options.user};
  wide_ = combines(call_.operation) && is_half(call_.dtype) && call_.options.user == nullptr;
  if (wide_) {
    widen();
  }
  // In place, arriving data would overwrite data still to be sent if a block does not land where it started.
  const bool moves = schedule_.layout != Layout::Split;
  if (moves && !wide_ && input_ == output_ && !call_.input.empty()) {
    std::byte* copy = scratch_.get(call_.input.size());
    std::memcpy(copy, call_.input.data(), call_.input.size());
    input_ = copy;
  }
  current_.resize(schedule_.blocks);
  passing_.resize(schedule_.blocks);
  for (Block b = 0; b < schedule_.blocks; ++b) {
    current_[b] = first_place(b);
  }
}

void ScheduledOp::widen() {
  combine_.dtype = DType::F32;
  element_bytes_ = size_of(DType::F32).count;
  const auto elements = static_cast<std::int64_t>(call_.input.size()) / geometry_.element_bytes;
  std::byte* wide_input = scratch_.get(bytes_of(elements));
  widen_halves(call_.dtype, call_.input, wide_input);
  input_ = wide_input;
  const auto results = static_cast<std::int64_t>(call_.output.size()) / geometry_.element_bytes;
  output_ = scratch_.get(bytes_of(results));
}

void ScheduledOp::narrow() {
  const bool has_result = call_.operation != Operation::Reduce || me_ == call_.root;
  if (has_result) {
    narrow_to_halves(call_.dtype, output_, call_.output);
  }
}

// Steps.

void ScheduledOp::begin_step() {
  const Step& step = schedule_.steps[step_];
  if (const auto& on_step = context_.on_step; on_step) {
    on_step(call_.operation, step_);
  }
  // Receives go into our own lists first, because sends must know what will be overwritten; every send is prepared
  // before anything is posted, so it reads the state before the step.
  for_each_message_of(step, me_, [&](const Message& message) {
    if (message.to == me_) {
      add_receive(message);
    }
  });
  for_each_message_of(step, me_, [&](const Message& message) {
    if (message.from == me_) {
      add_send(message);
    }
  });
  for (Arrival& arrival : receives_) {
    for (const Block block : arrival.blocks) {
      current_[block] = landing_place(block);
    }
  }
  for (Outgoing& send : sends_) {
    std::int64_t bytes = 0;
    for (const std::span<const std::byte> part : send.parts) {
      bytes += static_cast<std::int64_t>(part.size());
    }
    context_.op.messages.count_sent(call_.operation, bytes);
    context_.op.messages.mailbox().send(send);
  }
}

void ScheduledOp::add_send(const Message& message) {
  Outgoing& send = sends_.emplace_back();
  send.to = context_.op.members.world_rank(message.to);
  send.key = key();
  send.fingerprint = compared(record_);
  for_each_block(message.blocks, [&](Block block) {
    const std::size_t bytes = bytes_of(extent(block).length);
    const std::byte* from = current_[block];
    if (bytes == 0) {
      return;
    }
    const bool overwritten =
        std::ranges::any_of(receives_,
                            [&](const Arrival& arrival) {
                              return std::ranges::find(arrival.blocks, block) !=
                                     arrival.blocks.end();
                            }) &&
        from == landing_place(block);
    if (overwritten) {
      std::byte* copy = scratch_.get(bytes);
      std::memcpy(copy, from, bytes);
      from = copy;
    }
    send.parts.emplace_back(from, bytes);
  });
}

void ScheduledOp::add_receive(const Message& message) {
  Arrival& arrival = receives_.emplace_back();
  arrival.message.from = context_.op.members.world_rank(message.from);
  arrival.message.key = key();
  arrival.message.fingerprint = compared(record_);
  arrival.message.combine = message.action == Action::Combine ? &combine_ : nullptr;
  for_each_block(message.blocks, [&](Block block) {
    arrival.blocks.push_back(block);
    const std::size_t bytes = bytes_of(extent(block).length);
    const std::byte* base = current_[block];
    std::byte* into = landing_place(block);
    for (Arrival& earlier : receives_) {
      if (&earlier != &arrival &&
          std::ranges::find(earlier.blocks, block) != earlier.blocks.end()) {
        arrival.after = &earlier.message;
        base = into;
      }
    }
    if (bytes > 0) {
      arrival.message.parts.push_back({into, base, bytes});
    }
  });
}

/// Posts what can be posted. True if anything was.
bool ScheduledOp::post_receives() {
  bool posted = false;
  for (Arrival& arrival : receives_) {
    if (!arrival.posted &&
        (arrival.after == nullptr || arrival.after->done.load(std::memory_order_acquire))) {
      context_.op.messages.mailbox().receive(arrival.message);
      arrival.posted = true;
      posted = true;
    }
  }
  return posted;
}

/// Bytes moved in this step so far, to detect progress.
std::uint64_t ScheduledOp::bytes_moved() const {
  std::uint64_t bytes = 0;
  for (const Outgoing& send : sends_) {
    bytes += send.moved.load(std::memory_order_relaxed);
  }
  for (const Arrival& arrival : receives_) {
    bytes += arrival.message.moved.load(std::memory_order_relaxed);
  }
  return bytes;
}

bool ScheduledOp::step_done() {
  for (Arrival& arrival : receives_) {
    if (!arrival.posted || !arrival.message.done.load(std::memory_order_acquire)) {
      return false;
    }
    if (arrival.message.thrown) {
      std::rethrow_exception(arrival.message.thrown);
    }
    if (arrival.message.wrong == Incoming::Wrong::Call) {
      context_.mismatches.dispute(record_);
      return false;
    }
    if (arrival.message.wrong == Incoming::Wrong::Length) {
      context_.op.failures.fail(
          CommFault::Mismatch, {arrival.message.from},
          fmt::format("call #{}, {}: rank {} sent {} bytes in step {} where rank {} "
                      "expected another number",
                      record_.sequence, to_text(record_), arrival.message.from,
                      arrival.message.wrong_length, step_ + 1,
                      context_.op.members.world_rank(me_)));
    }
  }
  return std::ranges::all_of(
      sends_, [](const Outgoing& send) { return send.done.load(std::memory_order_acquire); });
}

/// Copies a piece of the result that this rank already has, while it waits for the rest. False if there is none left.
bool ScheduledOp::place_own() {
  if (combines(call_.operation)) {
    return false;
  }
  for (; own_block_ < schedule_.blocks; ++own_block_, own_bytes_ = 0) {
    const std::byte* value = first_place(own_block_);
    std::byte* result = result_place(own_block_);
    const std::int64_t left = extent(own_block_).length * element_bytes_ - own_bytes_;
    // A block that returns later, as in some schedules, is left to that message.
    if (value == nullptr || result == nullptr || value == result || left == 0 ||
        current_[own_block_] != value) {
      continue;
    }
    const std::int64_t piece = std::min(left, kOwnPiece);
    const bool is_long = static_cast<std::int64_t>(call_.output.size()) > kStreamAbove;
    copy_bytes(result + own_bytes_, value + own_bytes_, piece,
               is_long ? Stores::Streaming : Stores::Cached);
    own_bytes_ += piece;
    if (piece == left) {
      current_[own_block_] = result;
    }
    return true;
  }
  return false;
}

void ScheduledOp::finish() {
  while (place_own()) {
  }
  for (Block b = 0; b < schedule_.blocks; ++b) {
    if (extent(b).length > 0) {
      finish_block(b);
    }
  }
  if (wide_) {
    narrow();
  }
  if (context_.direct != nullptr) {
    context_.direct->state.finish(record_.sequence);
  }
}

/// A block of the result that never moved is still where it started.
void ScheduledOp::finish_block(Block block) {
  std::byte* result = result_place(block);
  if (result == nullptr) {
    return;
  }
  const std::byte* value = current_[block];
  TRIREME_CHECK(value != nullptr, "a block of the result never arrived");
  const std::int64_t length = extent(block).length;
  if (value != result) {
    std::memcpy(result, value, bytes_of(length));
  }
  const std::int64_t by = divisor(call_.options, schedule_.ranks);
  if (combines(call_.operation) && by != 1) {
    divide(combine_.dtype, result, length, by);
  }
}

/// Whether a message from or to this member is not done. One that is not posted yet may have arrived already.
bool ScheduledOp::is_missing(Rank place) const {
  const Rank world_rank = context_.op.members.world_rank(place);
  return std::ranges::any_of(receives_,
                             [&](const Arrival& arrival) {
                               return arrival.message.from == world_rank && arrival.posted &&
                                      !arrival.message.done.load();
                             }) ||
         std::ranges::any_of(sends_, [&](const Outgoing& send) {
           return send.to == world_rank && !send.done.load();
         });
}

std::string ScheduledOp::text() const {
  return fmt::format("call #{}, {}, step {} of {}", record_.sequence, to_text(record_), step_ + 1,
                     schedule_.steps.size());
}

void ScheduledOp::check(Seconds stuck) {
  if (handshake_) {
    handshake_->check(stuck);
    return;
  }
  context_.op.failures.check_members([this](Rank place) { return is_missing(place); },
                                     [this] { return text(); });
  if (context_.direct == nullptr) {  // otherwise the handshake has checked
    context_.mismatches.inquire(record_, stuck);
  }
}

/// A member that this rank waits for may itself wait for another: those that have not reported this call are late.
void ScheduledOp::expire(Seconds stuck) {
  if (handshake_) {
    handshake_->expire(stuck);
    return;
  }
  std::vector<Rank> late = context_.direct != nullptr
                               ? std::vector<Rank>{}
                               : context_.mismatches.silent_in(record_.sequence);
  for (Rank place = 0; late.empty() && place < context_.op.members.size(); ++place) {
    if (place != me_ && is_missing(place)) {
      late.push_back(place);
    }
  }
  context_.op.failures.fail_late(late, stuck, text());
}

}  // namespace trireme::comm
