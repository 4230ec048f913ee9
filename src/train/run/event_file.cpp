#include "train/run/event_file.h"

#include <array>
#include <bit>
#include <filesystem>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::train {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Castagnoli's polynomial, bit-reversed
constexpr std::uint32_t kMask = 0xA282EAD8;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    }
    table.at(byte) = crc;
  }
  return table;
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + kMask;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(value >> (8 * i))));
  }
  return bytes;
}

// Protobuf: a field is its number and wire type, then its value.

enum class Wire : std::uint8_t { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80U; value >>= 7U) {
    bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(value | 0x80U)));
  }
  bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(value)));
  return bytes;
}

std::string key(std::uint32_t number, Wire wire) {
  return varint((number << 3U) | static_cast<std::uint32_t>(wire));
}

std::string text_field(std::uint32_t number, std::string_view text) {
  return key(number, Wire::Length) + varint(text.size()) + std::string(text);
}

std::string double_field(std::uint32_t number, double value) {
  return key(number, Wire::Fixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}

std::string float_field(std::uint32_t number, double value) {
  return key(number, Wire::Fixed32) +
         little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}

std::string summary_of(std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    summary += text_field(1, text_field(1, scalar.tag) + float_field(2, scalar.value));
  }
  return summary;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = kTable.at((crc ^ static_cast<std::uint8_t>(byte)) & 0xFFU) ^ (crc >> 8U);
  }
  return ~crc;
}

EventFile::EventFile(const std::string& path, Seconds now) : path_(path) {
  if (std::filesystem::exists(path)) {
    throw Error(ErrorKind::System, fmt::format("'{}' is there already", path));
  }
  file_.open(path, std::ios::binary);
  write(double_field(1, now.count) + text_field(3, "brain.Event:2"));
}

void EventFile::add(std::int64_t step, Seconds now, std::span<const EventScalar> scalars) {
  write(double_field(1, now.count) + key(2, Wire::Varint) +
        varint(static_cast<std::uint64_t>(step)) + text_field(5, summary_of(scalars)));
}

void EventFile::write(const std::string& event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  file_ << length << little_endian(masked_crc(length)) << event << little_endian(masked_crc(event))
        << std::flush;
  if (!file_) {
    throw Error(ErrorKind::System, fmt::format("cannot write '{}'", path_));
  }
}

}  // namespace trireme::train
