// Messages between ranks, and the header of the pieces in which they are sent.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "comm/kernels/combine.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// Asking: "send me the rest", between mailboxes; the number is the message's serial.
enum class Topic : std::uint16_t { Collective, Message, Control, Asking };

/// Identifies the purpose of a message. Messages with the same source and key arrive in the order they were sent.
struct Key {
  std::uint64_t context = 0;  ///< the group
  std::uint64_t number = 0;   ///< collective: sequence and step; message: tag
  Topic topic = Topic::Collective;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// Precedes every piece on the wire. Little-endian, like all supported machines.
struct PieceHeader {
  std::uint32_t magic = 0;
  Topic topic = Topic::Collective;
  std::uint16_t padding = 0;
  std::uint64_t context = 0;
  std::uint64_t number = 0;
  /// Of the call, to detect a message of another call. Of a control message: how many pieces of other messages its
  /// sender gave to the streams before it.
  std::uint64_t fingerprint = 0;
  std::uint64_t total = 0;     ///< bytes of the message
  std::uint64_t offset = 0;    ///< of this piece in it
  std::uint32_t length = 0;    ///< of this piece
  std::uint32_t serial = 0;    ///< of the message, among those from its sender to this rank
  std::uint32_t data_sum = 0;  ///< checksum of the data; both are 0 if disabled
  std::uint32_t head_sum = 0;  ///< of the fields above; a header is not trusted before it matches
};
static_assert(sizeof(PieceHeader) == 64);

/// A message to send. Belongs to the caller, with its data, until it is done or cancelled.
struct Outgoing {
  Rank to = 0;
  Key key{};
  std::uint64_t fingerprint = 0;
  std::vector<std::span<const std::byte>> parts{};
  /// A long message that the receiver has not requested stays here (patient), or after a while is sent anyway, and
  /// buffered by the receiver.
  bool patient = false;
  std::atomic<std::uint64_t> moved{0};  ///< bytes, to detect progress
  std::atomic<bool> done{false};
};

/// The destination of a part of a message: `data`, combined with the data at `base`.
struct Landing {
  std::byte* data = nullptr;
  const std::byte* base = nullptr;
  std::size_t bytes = 0;
};

/// An expected message.
struct Incoming {
  Rank from = 0;
  Key key{};
  std::uint64_t fingerprint = 0;
  std::vector<Landing> parts{};
  const Combine* combine = nullptr;  ///< nullptr: copied
  std::atomic<std::uint64_t> moved{0};
  std::atomic<bool> done{false};
  /// The mismatch with the expected message, if any; the receive is then done, too.
  enum class Wrong : std::uint8_t { Nothing, Call, Length } wrong = Wrong::Nothing;
  std::uint64_t wrong_length = 0;
  /// The exception of the user's reduction; later data was not combined. Set before `done`.
  std::exception_ptr thrown{};
};

}  // namespace trireme::comm
