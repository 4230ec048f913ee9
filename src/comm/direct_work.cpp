// What direct operations do with data: where it lies, and the copying and combining.
//
// Staged data is written past the caches, unless this host was measured to be faster otherwise (short pieces excepted,
// see kernels.h). Lines that a peer read last time are in its cache, and to take each back before writing costs more than
// sending it to memory does: measured with two ranks and 256 KiB, 9 us to write past the caches and 14 to read again,
// against 28 to 115 and 6 to 14.
#include <algorithm>

#include <fmt/format.h>

#include "comm/direct.h"
#include "comm/direct_limits.h"
#include "comm/world_core.h"

namespace trireme::comm {

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

}  // namespace trireme::comm
