// The data of a direct collective: which bytes a rank reads and writes in each step. Pure, like direct_protocol.h:
// locations are named, not pointed to. Allocates nothing; passes moves to a visitor one by one.
//
// `Peers` is this rank's view of its peers:
//   Offers offers(Rank)               the rank's offers in this call
//   Extent sends(Rank from, Rank to)  of an all-to-all with counts: where in the input of `from` the
//                                     elements for `to` are
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/direct/area.h"
#include "comm/direct/direct_limits.h"
#include "comm/direct/direct_protocol.h"
#include "comm/direct/direct_windows.h"
#include "comm/transport/memory.h"
#include "comm/wire/geometry.h"

namespace trireme::comm {

enum class Place : std::uint8_t {
  Input,         ///< the caller's buffer; of a peer, one that this rank can see
  Output,        ///< likewise
  RemoteInput,   ///< a buffer of a peer that only the kernel can reach
  RemoteOutput,  ///< likewise
  Inline,        ///< in the slot: an input of a few bytes
  Copy,          ///< staging memory for whole inputs
  Chunk,         ///< staging memory for chunks of inputs
  Result,        ///< staging memory for results of chunks
};

/// A byte of some rank's memory.
struct Spot {
  Place place = Place::Input;
  Rank rank = 0;
  std::int64_t offset = 0;  ///< bytes
};

/// Bytes to copy. The two spots may be the same memory if a call is in place.
struct Move {
  Spot from;
  Spot to;
  std::int64_t bytes = 0;
};

/// Where the copy of an input of this length is.
[[nodiscard]] constexpr Place copy_place(std::int64_t input_bytes) {
  return input_bytes <= static_cast<std::int64_t>(kInlineBytes) ? Place::Inline : Place::Copy;
}

/// The copy that a rank stages before its stamp if it offers a copy of its input. Skips its own block of a long input,
/// which no other rank reads.
template <class Visit>
void each_copied(const DirectCall& call, const Visit& visit) {
  const Place place = copy_place(call.input_bytes);
  const auto put = [&](std::int64_t begin, std::int64_t end) {
    if (begin < end) {
      visit(Move{{Place::Input, call.me, begin}, {place, call.me, begin}, end - begin});
    }
  };
  if (call.has_block_for_each() && place == Place::Copy) {
    const std::int64_t element = call.geometry->element_bytes;
    const Extent own = call.geometry->block(call.me);
    put(0, own.offset * element);
    put((own.offset + own.length) * element, call.input_bytes);
  } else {
    put(0, call.input_bytes);
  }
}

/// A rank's data movement once the path is known.
template <class Peers>
class DirectMoves {
 public:
  DirectMoves(const DirectCall& call, Path path, const Windows& windows, const Peers& peers)
      : call_(call), geometry_(*call.geometry), path_(path), windows_(windows), peers_(peers) {}

  /// Whether the work combines, or copies to several ranks: sources(), targets(); otherwise it only copies.
  [[nodiscard]] bool combines() const { return path_ == Path::Share || call_.combines_inputs(); }

  // Combining: the elements of one source each become those of all targets.

  /// The elements that this rank combines.
  [[nodiscard]] Extent combined(const Window& window) const {
    if (call_.operation == Operation::ReduceScatter) {
      const std::int64_t end = std::min(window.end, geometry_.block(call_.me).length);
      return {window.begin, std::max<std::int64_t>(0, end - window.begin)};
    }
    if (path_ == Path::Read) {
      return call_.gets_result(call_.me) ? Extent{0, windows_.unit} : Extent{0, 0};
    }
    return has_own_block() ? geometry_.block(call_.me) : share_of(call_, window, call_.me);
  }
  template <class Visit>
  void each_source(const Window& window, Extent part, const Visit& visit) const {
    const bool has_blocks = call_.operation == Operation::ReduceScatter;
    const std::int64_t first = has_blocks ? geometry_.block(call_.me).offset : 0;
    const std::int64_t offset = bytes(first + part.offset);
    if (path_ == Path::Share && !call_.combines_vector()) {
      visit(has_own_block() ? Spot{Place::Input, call_.me, 0} : source(call_.root, offset, 0));
      return;
    }
    const std::int64_t in_chunk = chunk_offset(window, part.offset);
    for (Rank r = 0; r < call_.ranks; ++r) {
      visit(source(r, offset, in_chunk));
    }
  }
  /// Outputs first, then the area from which peers read the result of a chunk.
  template <class Visit>
  void each_target(const Window& window, Extent part, const Visit& visit) const {
    if (path_ == Path::Share) {
      for (Rank r = 0; r < call_.ranks; ++r) {
        if (call_.gets_result(r)) {
          visit(Spot{Place::Output, r, bytes(part.offset)});
        }
      }
      return;
    }
    const bool is_chunk = path_ == Path::Chunked && call_.combines_vector();
    if (!is_chunk || call_.gets_result(call_.me)) {
      visit(Spot{Place::Output, call_.me, bytes(part.offset)});
    }
    if (is_chunk && (call_.operation == Operation::Allreduce || call_.me != call_.root)) {
      visit(result(call_.me, window, part.offset));
    }
  }

  // Copying.

  /// Chunked: the data that this rank stages for its peers.
  template <class Visit>
  void each_staged(const Window& window, const Visit& visit) const {
    const auto put = [&](std::int64_t first, std::int64_t end, std::int64_t within) {
      if (end > first) {
        visit(Move{{Place::Input, call_.me, bytes(first)},
                   {Place::Chunk, call_.me, windows_.place_of(window.number) + bytes(within)},
                   bytes(end - first)});
      }
    };
    if (!call_.gives(call_.me)) {
      return;
    }
    if (call_.has_block_for_each()) {
      for (Rank d = 0; d < call_.ranks; ++d) {
        const Extent block = geometry_.block(d);
        if (d != call_.me) {
          put(block.offset + window.begin, block.offset + std::min(window.end, block.length),
              d * windows_.length);
        }
      }
    } else if (call_.combines_vector()) {
      const Extent mine = share_of(call_, window, call_.me);
      const std::int64_t after = mine.offset + mine.length;
      put(window.begin, mine.offset, 0);
      put(after, window.end, after - window.begin);
    } else {
      const std::int64_t length = call_.operation == Operation::Broadcast
                                      ? windows_.unit
                                      : geometry_.block(call_.me).length;
      put(window.begin, std::min(window.end, length), 0);
    }
  }

  /// The data that this rank writes into its peers' outputs through the kernel: the part they do not fetch.
  template <class Visit>
  void each_pushed(const Visit& visit) const {
    if (path_ != Path::Read || peers_.offers(call_.me).input != Offer::Address) {
      return;
    }
    for (Rank to = 0; to < call_.ranks; ++to) {
      if (to == call_.me || !call_.is_put_to(to)) {
        continue;
      }
      const Extent from = call_.operation == Operation::Scatter
                              ? geometry_.block(to)
                              : Extent{0, call_.input_bytes / geometry_.element_bytes};
      const std::int64_t into =
          call_.operation == Operation::Gather ? geometry_.block(call_.me).offset : 0;
      const std::int64_t first = fetched_of(call_.me, to, from.length);
      if (first < from.length) {
        visit(Move{{Place::Input, call_.me, bytes(from.offset + first)},
                   {Place::RemoteOutput, to, bytes(into + first)},
                   bytes(from.length - first)});
      }
    }
  }

  /// The data that this rank copies to its own output.
  template <class Visit>
  void each_pulled(const Window& window, const Visit& visit) const {
    switch (call_.operation) {
      case Operation::Barrier:
        return;
      case Operation::Broadcast:
        if (call_.me != call_.root) {
          pull(window, call_.root, {0, windows_.unit}, visit);
        }
        return;
      case Operation::Scatter:
        return pull(window, call_.root, {0, geometry_.block(call_.me).length}, visit);
      case Operation::Gather:
        if (call_.me != call_.root) {
          return;
        }
        break;
      default:
        break;
    }
    // Each rank starts with itself, so that they do not all read the same memory at once.
    for (Rank k = 0; k < call_.ranks; ++k) {
      const Rank from = (call_.me + k) % call_.ranks;
      pull(window, from,
           geometry_.form == Form::Pairs ? geometry_.receive_block(from) : geometry_.block(from),
           visit);
    }
  }

  /// Chunked: results that peers combined.
  template <class Visit>
  void each_taken(const Window& window, const Visit& visit) const {
    for (Rank r = 0; call_.gets_result(call_.me) && r < call_.ranks; ++r) {
      const Extent share = share_of(call_, window, r);
      if (r != call_.me && share.length > 0) {
        visit(Move{result(r, window, share.offset),
                   {Place::Output, call_.me, bytes(share.offset)},
                   bytes(share.length)});
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const {
    return elements * geometry_.element_bytes;
  }
  /// On the share path: this rank copies its own block to those that need it.
  [[nodiscard]] bool has_own_block() const {
    return call_.operation == Operation::Gather || call_.operation == Operation::Allgather;
  }
  [[nodiscard]] Spot result(Rank rank, const Window& window, std::int64_t element) const {
    return {Place::Result, rank, windows_.place_of(window.number) + bytes(element - window.begin)};
  }

  /// Where in `from`'s input the elements for this rank begin.
  [[nodiscard]] std::int64_t offered_offset(Rank from) const {
    if (!call_.has_block_for_each()) {
      return 0;
    }
    return geometry_.received.empty() ? geometry_.block(call_.me).offset
                                      : peers_.sends(from, call_.me).offset;
  }
  /// The length of a peer's whole input, which determines where its copy is. All inputs have the same length, except
  /// for blocks and all-to-all with counts.
  [[nodiscard]] std::int64_t input_bytes(Rank from) const {
    if (has_own_block()) {
      return bytes(geometry_.block(from).length);
    }
    if (!geometry_.received.empty()) {
      const Extent last = peers_.sends(from, call_.ranks - 1);
      return bytes(last.offset + last.length);
    }
    return geometry_.bytes();
  }
  /// The offset in the chunk memory of a peer's data for this rank, starting at that element.
  [[nodiscard]] std::int64_t chunk_offset(const Window& window, std::int64_t element) const {
    if (path_ != Path::Chunked) {
      return 0;
    }
    const std::int64_t block = call_.has_block_for_each() ? call_.me * windows_.length : 0;
    return windows_.place_of(window.number) + bytes(block + element - window.begin);
  }
  /// What `from` has for this rank: at `offset` of its input, and of a copy of that, or in a chunk.
  [[nodiscard]] Spot source(Rank from, std::int64_t offset, std::int64_t in_chunk) const {
    if (from == call_.me) {
      return {Place::Input, from, offset};
    }
    if (path_ == Path::Chunked) {
      return {Place::Chunk, from, in_chunk};
    }
    switch (peers_.offers(from).input) {
      case Offer::Buffer:
        return {Place::Input, from, offset};
      case Offer::Address:
        return {Place::RemoteInput, from, offset};
      default:
        return {copy_place(input_bytes(from)), from, offset};
    }
  }

  /// Copies the data of `from` for this rank to these elements of the output, except for the part that `from` puts
  /// there.
  template <class Visit>
  void pull(const Window& window, Rank from, Extent into, const Visit& visit) const {
    std::int64_t end = std::min(window.end, into.length);
    if (from != call_.me && path_ == Path::Read) {
      end = std::min(end, fetched_of(from, call_.me, into.length));
    }
    if (end > window.begin) {
      visit(Move{source(from, bytes(offered_offset(from) + window.begin),
                        chunk_offset(window, window.begin)),
                 {Place::Output, call_.me, bytes(into.offset + window.begin)},
                 bytes(end - window.begin)});
    }
  }

  /// The number of elements from one rank to the other that the reader copies itself. The owner puts the rest.
  [[nodiscard]] std::int64_t fetched_of(Rank from, Rank to, std::int64_t length) const {
    const bool is_put =
        peers_.offers(from).input == Offer::Address && peers_.offers(to).output == Offer::Address;
    if (!is_put) {
      return length;
    }
    if (!is_halved(call_.operation, call_.ranks, call_.longest_block())) {
      return 0;
    }
    const std::int64_t page = kPage / geometry_.element_bytes;  // the kernel copies whole pages
    return fetched_of_halved(call_.operation, length) / page * page;
  }

  const DirectCall& call_;
  const Geometry& geometry_;
  const Path path_;
  const Windows& windows_;
  const Peers& peers_;
};

}  // namespace trireme::comm
