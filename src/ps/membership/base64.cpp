#include "ps/membership/base64.h"

#include <algorithm>
#include <cstdint>

#include "trireme/error.h"

namespace trireme::ps {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint32_t value_of(char digit) {
  const std::size_t value = kDigits.find(digit);
  if (value == std::string_view::npos) {
    throw Error(ErrorKind::Input, "not Base64");
  }
  return static_cast<std::uint32_t>(value);
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 3))) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return text;
}

std::string from_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    throw Error(ErrorKind::Input, "not Base64");
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  const std::size_t end = text.find_last_not_of('=') + 1;  // 0 if there is none
  if (text.size() - end > 2) {
    throw Error(ErrorKind::Input, "not Base64");
  }
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < end; ++i) {
    group = group << 6 | value_of(text[i]);
    const std::size_t left = 6 - 2 * (i % 4);  // bits that wait for the next digit
    if (i % 4 != 0) {
      bytes += static_cast<char>(group >> left & 255U);
    }
  }
  return bytes;
}

}  // namespace trireme::ps
