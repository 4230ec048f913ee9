// Messages between ranks, and the header of the pieces that they travel in.
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

/// What a message is for. Messages of one source and one key arrive in the order they were sent.
struct Key {
  std::uint64_t context = 0;  ///< the group
  std::uint64_t number = 0;   ///< collective: sequence and step; message: tag
  Topic topic = Topic::Collective;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// In front of every piece, as it travels. Little-endian, as all machines that we run on.
struct PieceHeader {
  std::uint32_t magic = 0;
  Topic topic = Topic::Collective;
  std::uint16_t padding = 0;
  std::uint64_t context = 0;
  std::uint64_t number = 0;
  /// Of the call, so that a message of another call is detected. Of a control message: how many pieces of others
  /// its sender gave to the streams before it.
  std::uint64_t fingerprint = 0;
  std::uint64_t total = 0;     ///< bytes of the message
  std::uint64_t offset = 0;    ///< of this piece in it
  std::uint32_t length = 0;    ///< of this piece
  std::uint32_t serial = 0;    ///< of the message, among those of its sender to this rank
  std::uint32_t data_sum = 0;  ///< checksum of the data; both are 0 if switched off
  std::uint32_t head_sum = 0;  ///< of what is above; no header is believed before it agrees
};
static_assert(sizeof(PieceHeader) == 64);

/// A message to send. Belongs to the caller, with its data, until it is done or cancelled.
struct Outgoing {
  Rank to = 0;
  Key key{};
  std::uint64_t fingerprint = 0;
  std::vector<std::span<const std::byte>> parts{};
  /// A long message that the receiver has not asked for: it stays here (patient), or after a while goes all the
  /// same, and is kept over there.
  bool patient = false;
  std::atomic<std::uint64_t> moved{0};  ///< bytes, to see whether it advances
  std::atomic<bool> done{false};
};

/// Where a part of a message goes: to `data`, combined with what is at `base`.
struct Landing {
  std::byte* data = nullptr;
  const std::byte* base = nullptr;
  std::size_t bytes = 0;
};

/// A message that is waited for.
struct Incoming {
  Rank from = 0;
  Key key{};
  std::uint64_t fingerprint = 0;
  std::vector<Landing> parts{};
  const Combine* combine = nullptr;  ///< nothing: copied
  std::atomic<std::uint64_t> moved{0};
  std::atomic<bool> done{false};
  /// What arrived instead of what was expected; then it is done too.
  enum class Wrong : std::uint8_t { Nothing, Call, Length } wrong = Wrong::Nothing;
  std::uint64_t wrong_length = 0;
  /// What the user's reduction threw; what arrived after that was not combined. Set before `done`.
  std::exception_ptr thrown{};
};

}  // namespace trireme::comm
