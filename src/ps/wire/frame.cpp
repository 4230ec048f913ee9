#include "ps/wire/frame.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "ps/protocol/bytes.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

constexpr std::uint32_t kFrameMagic = 0x31535054;  // "TPS1"

struct RawHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint8_t kind = 0;
  std::array<std::uint8_t, 3> zeros{};
  std::uint32_t field_bytes = 0;
  std::uint32_t floats = 0;
  std::uint64_t number = 0;
  std::uint64_t check = 0;
};
static_assert(sizeof(RawHeader) == kHeaderBytes);

std::uint64_t check_of(const RawHeader& raw) {
  return XXH3_64bits(&raw, offsetof(RawHeader, check));
}

template <std::size_t I>
Message decode_as(std::string_view fields, Values floats) {
  std::variant_alternative_t<I, Message> message;
  ByteReader reader(fields, std::move(floats));
  std::variant_alternative_t<I, Message>::fields(reader, message);
  reader.finish();
  return message;
}

template <std::size_t... I>
Message decode_any(std::size_t kind, std::string_view fields, Values floats,
                   std::index_sequence<I...> /*kinds*/) {
  using Decode = Message (*)(std::string_view, Values);
  static constexpr std::array<Decode, sizeof...(I)> kDecoders{&decode_as<I>...};
  return kDecoders.at(kind)(fields, std::move(floats));
}

}  // namespace

void require_frame(bool holds, const std::string& problem) {
  if (!holds) {
    throw Error(ErrorKind::Input, "malformed frame: " + problem);
  }
}

HeaderBytes to_bytes(const FrameHeader& header) {
  RawHeader raw{.kind = header.kind,
                .field_bytes = header.field_bytes,
                .floats = header.floats,
                .number = header.number};
  raw.check = check_of(raw);
  HeaderBytes bytes;
  std::memcpy(bytes.data(), &raw, sizeof(raw));
  return bytes;
}

FrameHeader parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                         std::uint64_t expected_number) {
  RawHeader raw;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  require_frame(raw.magic == kFrameMagic, "it does not begin with TPS1");
  require_frame(raw.check == check_of(raw), "the header is damaged");
  require_frame(
      raw.number == expected_number,
      fmt::format("number {} instead of {}: replayed or lost", raw.number, expected_number));
  require_frame(raw.kind < std::variant_size_v<Message> || raw.kind >= kFirstControlKind,
                fmt::format("unknown kind {}", raw.kind));
  require_frame(raw.field_bytes <= kMaxFieldBytes && raw.floats <= kMaxFloats,
                fmt::format("{} bytes and {} floats are too many", raw.field_bytes, raw.floats));
  return {raw.kind, raw.field_bytes, raw.floats, raw.number};
}

Encoded encode(const Message& message) {
  Encoded encoded{static_cast<std::uint8_t>(message.index()), {}, {}};
  ByteWriter writer(encoded.fields);
  std::visit([&](const auto& m) { writer(m); }, message);
  encoded.floats = writer.floats();
  return encoded;
}

AnswerHead peek_answer(std::string_view fields) {
  AnswerHead head;
  ByteReader reader(fields);
  reader(head);
  return head;
}

bool is_push_done(std::uint8_t kind) {
  static const auto own = static_cast<std::uint8_t>(Message(PushDone{}).index());
  return kind == own;
}

bool is_pull_done(std::uint8_t kind) {
  static const auto own = static_cast<std::uint8_t>(Message(PullDone{}).index());
  return kind == own;
}

Message decode(std::uint8_t kind, std::string_view fields, Values floats) {
  require_frame(kind < std::variant_size_v<Message>, fmt::format("unknown kind {}", kind));
  return decode_any(kind, fields, std::move(floats),
                    std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace trireme::ps
