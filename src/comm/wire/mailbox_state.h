// A mailbox's state for each peer and each stream. Only for mailbox*.cpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/wire/message.h"
#include "comm/wire/stream.h"

namespace trireme::comm {

/// "TRI" and the version of the frame format.
inline constexpr std::uint32_t kMessageMagic = 0x02495254;
inline constexpr std::uint32_t kPieceBytes = 256U << 10;
/// Messages up to this length are sent eagerly as a whole, and buffered if unexpected.
inline constexpr std::uint64_t kShortBytes = 64U << 10;
/// The beginning of a longer one, which is sent eagerly: enough for the rest to be requested while it is read.
inline constexpr std::uint32_t kBeginningBytes = 16U << 10;
/// How long a blocked stream is tolerated before something is done about it.
inline constexpr std::chrono::milliseconds kHoldUp{1};

/// Whether all but the beginning of such a message must be requested.
[[nodiscard]] inline bool must_be_requested(const PieceHeader& header) {
  return header.topic == Topic::Message && header.total > kShortBytes;
}

[[nodiscard]] std::uint32_t sum_of(std::span<const std::byte> data);
[[nodiscard]] std::uint32_t sum_of(const PieceHeader& header);

/// Whether its bytes are read straight to their destination.
[[nodiscard]] inline bool lands_directly(const Incoming& message) {
  return message.combine == nullptr && message.parts.size() == 1;
}

namespace mailbox {

/// An unexpected message, as far as it has arrived.
struct Stored {
  struct Piece {
    std::uint64_t offset = 0;
    std::vector<std::byte> data;
  };
  PieceHeader header;
  std::vector<Piece> pieces;
  bool complete = false;

  [[nodiscard]] std::vector<std::byte> joined() const {
    std::vector<std::byte> data(header.total);
    for (const Piece& piece : pieces) {
      std::ranges::copy(piece.data, data.begin() + static_cast<std::ptrdiff_t>(piece.offset));
    }
    return data;
  }
};

/// A message being sent, and its progress.
struct Sending {
  Outgoing* message = nullptr;  ///< nullptr: it was cancelled, or is our own copy
  std::vector<std::byte> copy;  ///< owned data
  std::vector<std::span<const std::byte>> parts;
  PieceHeader header;
  std::uint64_t cut = 0;         ///< bytes already assigned to lines
  std::uint32_t pieces_out = 0;  ///< pieces assigned to lines and not yet written
  /// When it started to wait for a request.
  std::chrono::steady_clock::time_point waits_since{};
};

/// One stream and its state.
struct Line {
  std::unique_ptr<Stream> stream;
  // Out: the piece being written.
  std::shared_ptr<Sending> sending;
  PieceHeader out_header;
  std::vector<std::byte> out_copy;  ///< the rest of a cancelled message's piece
  std::span<const std::byte> out_body;
  std::vector<std::byte> out_gathered;  ///< a piece in several parts
  std::size_t out_done = 0;
  // In: the piece being read.
  PieceHeader in_header;
  std::size_t in_head_done = 0;
  bool bound = false;
  Incoming* target = nullptr;
  std::shared_ptr<Stored> stored;  ///< instead of a target; neither: discarded
  std::size_t in_done = 0;         ///< bytes of the body
  std::vector<std::byte> in_room;  ///< a piece that is checked, combined or buffered
  std::optional<std::chrono::steady_clock::time_point> held_since;
  bool closed = false;
};

struct Peer {
  std::vector<std::unique_ptr<Line>> lines;
  std::deque<std::shared_ptr<Sending>> queue;
  std::list<std::shared_ptr<Sending>> unasked;  ///< messages whose beginning was sent
  std::multimap<Key, Incoming*> waiting;        ///< those with the same key in order
  std::multimap<Key, std::shared_ptr<Stored>> kept;
  /// Messages of several pieces in flight, by serial.
  struct InFlight {
    Incoming* target = nullptr;
    std::shared_ptr<Stored> stored;
    std::uint64_t total = 0;
    std::uint64_t left = 0;
    bool comes = true;  ///< unprompted, or because it was requested
  };
  std::map<std::uint32_t, InFlight> in_flight;
  std::uint32_t next_serial = 0;
  std::uint64_t pieces_out = 0;  ///< assigned to the streams, excluding control messages
  std::uint64_t pieces_in = 0;   ///< received, likewise
  /// How many pieces arrive in total, once the peer has reported it.
  std::optional<std::uint64_t> last_piece;
  bool checksums = false;
  /// When the first of its streams closed.
  std::optional<std::chrono::steady_clock::time_point> closing;
  bool lost = false;          ///< it was reported as lost
  bool cannot_write = false;  ///< it may still have sent something before it ended
  bool broken = false;
};

}  // namespace mailbox

}  // namespace trireme::comm
