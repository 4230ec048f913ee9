// What direct operations do with data: where it lies, and the copying and combining.
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

/// Where a window's chunk begins, in the part of staging memory for chunks or for results.
std::int64_t DirectOp::place_of(std::int64_t window) const {
  const std::int64_t places = static_cast<std::int64_t>(kRoundBytes) / chunk_bytes_;
  return (first_place_ + window) % places * chunk_bytes_;
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
    return group_.area(from).chunk(place_of(window.number)) +
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
  std::byte* chunk = group_.area(me_).chunk(place_of(window.number));
  const auto put = [&](std::int64_t first, std::int64_t length, std::byte* to) {
    if (length > 0) {
      group_.staging().copy(to, input_at(first),
                            static_cast<std::size_t>(length * geometry_.element_bytes));
    }
  };
  switch (call_.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
    case Operation::Alltoall:
      for (Rank d = 0; d < ranks_; ++d) {
        const Extent block = geometry_.block(d);
        if (d != me_) {
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
      if (way_ == Way::Share) {
        copy_share(window);
      } else {
        push();
        pull(window);
      }
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

/// The inputs are what each rank has for this one in the window, from so many bytes on.
void DirectOp::take_inputs(const Window& window, std::int64_t within) {
  group_.inputs.clear();
  for (Rank r = 0; r < ranks_; ++r) {
    group_.inputs.push_back(source(r, window) + within);
  }
}

/// Everything, by this rank for itself.
void DirectOp::combine_whole() {
  if (!gets_result(me_)) {
    return;
  }
  take_inputs({0, unit_, 0});
  group_.targets.assign(1, call_.output.data());
  combine(unit_, stores_);
}

/// This rank's share of a vector that all see, into the outputs of all who want it.
void DirectOp::combine_share(const Window& window) {
  const Extent share = share_of(window, me_);
  take_inputs({share.offset, share.offset + share.length, 0});
  aim_at_results(share.offset);
  combine(share.length, stores_);
}

/// The targets are this place in the outputs of all who get the result.
void DirectOp::aim_at_results(std::int64_t element) {
  group_.targets.clear();
  for (Rank r = 0; r < ranks_; ++r) {
    if (gets_result(r)) {
      const Rank world_rank = group_.members()[static_cast<std::size_t>(r)];
      group_.targets.push_back(group_.world().memory().view(world_rank, slot(r).output) +
                               element * geometry_.element_bytes);
    }
  }
}

/// This rank's block, or its share of what the root has, into the outputs of all who want it.
void DirectOp::copy_share(const Window& window) {
  const bool has_block = call_.operation != Operation::Broadcast;
  const Extent share = has_block ? geometry_.block(me_) : share_of(window, me_);
  group_.inputs.assign(
      1, has_block ? call_.input.data() : source(call_.root, {share.offset, share.offset, 0}));
  aim_at_results(share.offset);
  if (share.length > 0 && !group_.targets.empty()) {
    combine_many({.dtype = call_.dtype}, group_.inputs, group_.targets, share.length, stores_);
  }
}

/// This rank's share of a staged chunk: to its own output if it wants the result, and to where the
/// others take it from.
void DirectOp::combine_staged_share(const Window& window) {
  const Extent share = share_of(window, me_);
  const std::int64_t within = (share.offset - window.begin) * geometry_.element_bytes;
  take_inputs(window, within);
  std::byte* result = group_.area(me_).result(place_of(window.number)) + within;
  std::byte* output = gets_result(me_) ? output_at(share.offset) : nullptr;
  const Stores way = group_.staging().way();
  if (output == nullptr) {
    group_.targets.assign(1, result);
    combine(share.length, way);
  } else if (call_.operation == Operation::Reduce) {
    group_.targets.assign(1, output);
    combine(share.length, stores_);
  } else if (way == stores_) {
    group_.targets.assign({output, result});
    combine(share.length, stores_);
  } else {
    // First the one that the cache keeps, from which the other is copied.
    const bool keeps_output = stores_ == Stores::Cached;
    group_.targets.assign(1, keeps_output ? output : result);
    combine(share.length, Stores::Cached);
    copy_bytes(keeps_output ? result : output, group_.targets[0],
               static_cast<std::size_t>(share.length * geometry_.element_bytes), Stores::Streaming);
  }
}

void DirectOp::combine_blocks(const Window& window) {
  const std::int64_t end = std::min(window.end, geometry_.block(me_).length);
  take_inputs(window);
  group_.targets.assign(1, output_at(window.begin));
  combine(end - window.begin, stores_);
}

/// Results that others made, from their staging memory.
void DirectOp::take(const Window& window) {
  for (Rank r = 0; r < ranks_; ++r) {
    if (r != me_) {
      const Extent share = share_of(window, r);
      copy(output_at(share.offset),
           group_.area(r).result(place_of(window.number)) +
               (share.offset - window.begin) * geometry_.element_bytes,
           share.length);
    }
  }
}

void DirectOp::pull(const Window& window) {
  switch (call_.operation) {
    case Operation::Broadcast:
      if (me_ != call_.root) {
        pull_block(window, call_.root, {0, unit_});
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
    fetch(from, offered_offset(from), to, fetched_of(from, me_, end));
  } else {
    copy(to, source(from, window), end - window.begin);
  }
}

/// How many elements, of those that go from one rank to the other, the reader fetches. The owner puts the rest.
std::int64_t DirectOp::fetched_of(Rank from, Rank to, std::int64_t length) const {
  const bool is_put =
      slot(from).input_offer == Offer::Address && slot(to).output_offer == Offer::Address;
  if (!is_put) {
    return length;
  }
  if (!is_halved(call_.operation, ranks_, longest_block())) {
    return 0;
  }
  const std::int64_t page = kPage / geometry_.element_bytes;  // the system copies by pages
  return fetched_of_halved(call_.operation, length) / page * page;
}

/// What this rank puts where it is wanted: the rest of what the reader does not fetch.
void DirectOp::push() {
  if (way_ != Way::Read || slot(me_).input_offer != Offer::Address) {
    return;
  }
  for (Rank to = 0; to < ranks_; ++to) {
    if (to == me_ || !is_put_to(to)) {
      continue;
    }
    const Extent from =
        call_.operation == Operation::Scatter
            ? geometry_.block(to)
            : Extent{0, static_cast<std::int64_t>(call_.input.size()) / geometry_.element_bytes};
    const std::int64_t first = fetched_of(me_, to, from.length);
    const std::int64_t into =
        first + (call_.operation == Operation::Gather ? geometry_.block(me_).offset : 0);
    const std::uint64_t address =
        slot(to).output + static_cast<std::uint64_t>(into * geometry_.element_bytes);
    const auto bytes = static_cast<std::size_t>((from.length - first) * geometry_.element_bytes);
    if (bytes > 0) {
      group_.world().require_not_given_up();  // else that memory may be something else by now
      copy_by_system(to, [&](Rank rank) {
        group_.world().memory().put(rank, address, {input_at(from.offset + first), bytes});
      });
    }
  }
}

/// Elements of a peer's input that it does not share.
void DirectOp::fetch(Rank from, std::int64_t element, std::byte* to, std::int64_t elements) {
  const std::uint64_t address =
      slot(from).input + static_cast<std::uint64_t>(element * geometry_.element_bytes);
  const auto bytes = static_cast<std::size_t>(elements * geometry_.element_bytes);
  if (bytes > 0) {
    copy_by_system(from, [&](Rank rank) {
      group_.world().memory().fetch(rank, address, {to, bytes});
    });
  }
}

void DirectOp::copy_by_system(Rank peer, const std::function<void(Rank world_rank)>& how) {
  const Rank world_rank = group_.members()[static_cast<std::size_t>(peer)];
  try {
    how(world_rank);
  } catch (const Error& error) {
    group_.fail(CommFault::Died, {world_rank},
                fmt::format("call #{}, {}: {}", record_.sequence, to_text(record_), error.what()));
  }
}

}  // namespace trireme::comm
