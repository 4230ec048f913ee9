// Frames: how messages travel over a connection. A frame is a checked header, the message's fields, and its floats.
//
//   0   4   magic "TPS1"
//   4   1   kind: the message's place in Message, or kFirstControlKind and above
//   5   3   zeros
//   8   4   bytes of the fields
//   12  4   number of floats
//   16  8   number of the frame on this connection, from 0: a replayed frame has the wrong one
//   24  8   XXH3 of the bytes before
//
// The floats come last and apart, so that they are received straight into an aligned buffer. Everything is
// little-endian. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ps/protocol/message.h"

namespace trireme::ps {

inline constexpr std::size_t kHeaderBytes = 32;
/// Frames of the connection itself.
inline constexpr std::uint8_t kFirstControlKind = 253;
inline constexpr std::uint8_t kSwitchKind = 253;  ///< what follows is in shared memory
inline constexpr std::uint8_t kOfferKind = 254;   ///< of shared memory
inline constexpr std::uint8_t kHelloKind = 255;
inline constexpr std::uint32_t kMaxFieldBytes = 64U << 20;
inline constexpr std::uint32_t kMaxFloats = 1U << 28;

struct FrameHeader {
  std::uint8_t kind = 0;
  std::uint32_t field_bytes = 0;
  std::uint32_t floats = 0;
  std::uint64_t number = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};
using HeaderBytes = std::array<std::byte, kHeaderBytes>;

/// Throws Error(Input) with the problem unless `holds`.
void require_frame(bool holds, const std::string& problem);
[[nodiscard]] HeaderBytes to_bytes(const FrameHeader& header);
/// Throws Error(Input) saying what is wrong: another magic, a wrong check, kind or number, or an impossible size.
[[nodiscard]] FrameHeader parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                       std::uint64_t expected_number);

/// The first frame on a connection: who is calling whom.
struct Hello {
  NodeId from{};
  NodeId to{};
  std::uint64_t host = 0;  ///< of processes that can share memory; 0: this one does not want to

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.from, self.to, self.host);
  }
};

/// The last frame in one direction before the frames in shared memory.
struct Switch {
  bool is_accepted = true;  ///< false: the caller could not open the memory, and nothing changes

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.is_accepted);
  }
};

/// A message without its header. The floats are those of the message.
struct Encoded {
  std::uint8_t kind = 0;
  std::string fields;
  Values floats;
};
[[nodiscard]] Encoded encode(const Message& message);
/// What PushDone and PullDone begin with; to be read before their floats have arrived.
struct AnswerHead {
  ShardId shard{};
  Epoch epoch = 0;
  std::uint64_t number = 0;  ///< the sequence or the request

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.number);
  }
};
/// Throws Error(Input).
[[nodiscard]] AnswerHead peek_answer(std::string_view fields);
[[nodiscard]] bool is_push_done(std::uint8_t kind);
[[nodiscard]] bool is_pull_done(std::uint8_t kind);
/// Throws Error(Input) if the fields are not those of such a message.
[[nodiscard]] Message decode(std::uint8_t kind, std::string_view fields, Values floats);

}  // namespace trireme::ps
