#include "comm/rendezvous/store_wire.h"

#include <concepts>

#include <fmt/format.h>

#include "comm/rendezvous/store.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kRequestHead = 9;
constexpr std::size_t kReplyHead = 5;
/// A Set or an Insert; replies are shorter.
constexpr std::size_t kLongestFrame = kRequestHead + kLongestKey + kLongestValue;

[[noreturn]] void malformed(const std::string& what) {
  throw Error(ErrorKind::Input, "store: malformed frame: " + what);
}

template <std::unsigned_integral T>
void append(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

template <std::unsigned_integral T>
T read_at(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<T>(value << 8 | static_cast<unsigned char>(bytes[at + i]));
  }
  return value;
}

/// Takes from the front of a frame.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}

  template <std::unsigned_integral T>
  T take(std::string_view what) {
    return read_at<T>(take(sizeof(T), what), 0);
  }

  std::string_view take(std::size_t bytes, std::string_view what) {
    if (left_.size() < bytes) {
      malformed(fmt::format("{} bytes are left where {} has {}", left_.size(), what, bytes));
    }
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  [[nodiscard]] std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

}  // namespace

std::string encode(const Request& request) {
  const bool has_number = request.what == Request::What::Add;
  const std::size_t rest =
      kRequestHead + request.key.size() + request.value.size() + (has_number ? 8 : 0);
  std::string frame;
  frame.reserve(4 + rest);
  append(frame, static_cast<std::uint32_t>(rest));
  append(frame, request.id);
  append(frame, static_cast<std::uint8_t>(request.what));
  append(frame, static_cast<std::uint32_t>(request.key.size()));
  frame += request.key;
  frame += request.value;
  frame += has_number ? encode_number(request.delta) : "";
  return frame;
}

std::string encode(std::uint32_t id, Reply::Status status, std::string_view body) {
  const std::size_t rest = kReplyHead + body.size();
  std::string frame;
  frame.reserve(4 + rest);
  append(frame, static_cast<std::uint32_t>(rest));
  append(frame, id);
  append(frame, static_cast<std::uint8_t>(status));
  frame += body;
  return frame;
}

std::string encode_number(std::int64_t number) {
  std::string out;
  append(out, static_cast<std::uint64_t>(number));
  return out;
}

std::int64_t decode_number(std::string_view body) {
  if (body.size() != 8) {
    malformed(fmt::format("a number of {} bytes, not 8", body.size()));
  }
  return static_cast<std::int64_t>(read_at<std::uint64_t>(body, 0));
}

Request decode_request(std::string_view rest) {
  Cursor cursor(rest);
  Request request;
  request.id = cursor.take<std::uint32_t>("the id");
  const auto what = cursor.take<std::uint8_t>("the kind of request");
  const auto key_length = cursor.take<std::uint32_t>("the length of the key");
  if (request.id == 0) {
    malformed("a request with id 0");
  }
  if (what < 1 || what > 5) {
    malformed(fmt::format("a request of kind {}; known are 1 to 5", what));
  }
  if (key_length < 1 || key_length > kLongestKey) {
    malformed(fmt::format("a key of {} bytes; it must have 1 to {}", key_length, kLongestKey));
  }
  request.what = static_cast<Request::What>(what);
  request.key = cursor.take(key_length, "the key");
  if (request.what == Request::What::Set || request.what == Request::What::Insert) {
    request.value = cursor.rest();
  } else if (request.what == Request::What::Add) {
    request.delta = decode_number(cursor.rest());
  } else if (!cursor.rest().empty()) {
    malformed(fmt::format("{} bytes behind a request that has none", cursor.rest().size()));
  }
  return request;
}

Reply decode_reply(std::string_view rest) {
  Cursor cursor(rest);
  Reply reply;
  reply.id = cursor.take<std::uint32_t>("the id");
  const auto status = cursor.take<std::uint8_t>("the status");
  if (status > 1) {
    malformed(fmt::format("a reply of status {}; known are 0 and 1", status));
  }
  reply.status = static_cast<Reply::Status>(status);
  reply.body = cursor.rest();
  return reply;
}

void FrameReader::add(std::span<const std::byte> bytes) {
  if (used_ > 0) {
    held_.erase(0, used_);
    used_ = 0;
  }
  held_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<std::string> FrameReader::next() {
  std::string_view left = held_;
  left.remove_prefix(used_);
  if (left.size() < 4) {
    return std::nullopt;
  }
  const std::size_t length = read_at<std::uint32_t>(left, 0);
  if (length > kLongestFrame) {
    malformed(fmt::format("{} bytes are announced; at most {} are allowed", length, kLongestFrame));
  }
  if (left.size() < 4 + length) {
    return std::nullopt;
  }
  used_ += 4 + length;
  return std::string(left.substr(4, length));
}

}  // namespace trireme::comm
