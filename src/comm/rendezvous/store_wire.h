// The messages between a store's client and server, after the handshake. Pure; one thread at a
// time.
//
//   frame    length of the rest (u32), rest
//   request  id (u32), what (u8), length of the key (u32), key, value or number (i64) or nothing
//   reply    id (u32), status (u8), value or number (i64) or nothing or a sentence
//
// All numbers are little endian. Replies may arrive in any order; a Cancel has none. A reply to id 0 is the server's
// last message before it closes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme::comm {

/// How much either side reads from its socket at a time.
inline constexpr std::size_t kStoreReadBytes = std::size_t{64} << 10;

struct Request {
  enum class What : std::uint8_t { Set = 1, Get = 2, Add = 3, Cancel = 4, Insert = 5 };
  std::uint32_t id = 0;  ///< chosen by the client, not 0; for a Cancel: the Get that is cancelled
  What what = What::Get;
  std::string key;
  std::string value;       ///< of a Set or an Insert
  std::int64_t delta = 0;  ///< of an Add
};

struct Reply {
  enum class Status : std::uint8_t { Done = 0, Refused = 1 };
  std::uint32_t id = 0;
  Status status = Status::Done;
  std::string body;  ///< the value or number; for a refusal the reason
};

/// Each returns a whole frame.
[[nodiscard]] std::string encode(const Request& request);
[[nodiscard]] std::string encode(std::uint32_t id, Reply::Status status, std::string_view body);
[[nodiscard]] std::string encode_number(std::int64_t number);

/// Each takes the body of a frame and throws Error(Input) with the problem.
[[nodiscard]] Request decode_request(std::string_view rest);
[[nodiscard]] Reply decode_reply(std::string_view rest);
[[nodiscard]] std::int64_t decode_number(std::string_view body);

/// Splits a stream of bytes into frames. Buffers only received bytes, never the announced length.
class FrameReader {
 public:
  void add(std::span<const std::byte> bytes);
  /// The body of the next frame, once all of it has arrived. Throws Error(Input) if the announced length exceeds that
  /// of any request or reply.
  [[nodiscard]] std::optional<std::string> next();

 private:
  std::string held_;
  std::size_t used_ = 0;  ///< of held_, from its start
};

}  // namespace trireme::comm
