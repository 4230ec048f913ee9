// The wire format of an agreement's messages: fixed-size numbers, length-prefixed lists.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "comm/world/agreement.h"

namespace trireme::comm {
namespace {

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  void put_list(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const T& value : list) {
      put(value);
    }
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what Writer wrote; ok() is false once there was less than expected.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    T value{};
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> get_list() {
    const auto size = get<std::uint32_t>();
    std::vector<T> list;
    for (std::uint32_t i = 0; i < size && ok_; ++i) {
      list.push_back(get<T>());
    }
    return list;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace

std::vector<std::byte> to_bytes(const AgreementMessage& message) {
  Writer writer;
  writer.put(message.kind);
  writer.put(message.ballot.round);
  writer.put(message.ballot.coordinator);
  writer.put(message.accepted.round);
  writer.put(message.accepted.coordinator);
  writer.put_list(message.members);
  writer.put_list(message.seen.items());
  writer.put_list(message.payload);
  writer.put(static_cast<std::uint32_t>(message.payloads.size()));
  for (const auto& payload : message.payloads) {
    writer.put_list(payload);
  }
  return writer.take();
}

std::optional<AgreementMessage> parse_agreement(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  AgreementMessage message;
  message.kind = reader.get<AgreementMessage::Kind>();
  message.ballot.round = reader.get<std::uint64_t>();
  message.ballot.coordinator = reader.get<Rank>();
  message.accepted.round = reader.get<std::uint64_t>();
  message.accepted.coordinator = reader.get<Rank>();
  message.members = reader.get_list<Rank>();
  message.seen = reader.get_list<Standing>();
  message.payload = reader.get_list<std::byte>();
  const auto payloads = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < payloads && reader.ok(); ++i) {
    message.payloads.push_back(reader.get_list<std::byte>());
  }
  const bool is_message =
      reader.at_end() && message.kind <= AgreementMessage::Kind::Withdraw &&
      message.members.size() == message.payloads.size() &&
      std::ranges::all_of(message.seen, [](Standing s) { return s <= Standing::Fallen; });
  return is_message ? std::optional(message) : std::nullopt;
}

}  // namespace trireme::comm
