// Little-endian bytes of values: what a struct lists in `fields` is written and read in that order. The floats of a
// message travel apart from its other fields, so that they can be received straight into an aligned buffer. Readers
// check every length against what is there. One thread at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ps/protocol/values.h"
#include "trireme/error.h"

namespace trireme::ps {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  template <class... T>
  void operator()(const T&... values) {
    (one(values), ...);
  }
  /// Of the Values that were written.
  [[nodiscard]] const Values& floats() const { return floats_; }

 private:
  template <Scalar T>
  void one(const T& value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  template <class T>
  requires(!Scalar<T>) void one(const T& value) { T::fields(*this, value); }
  void one(const std::string& text) {
    one(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  void one(const Values& values) {
    one(static_cast<std::uint64_t>(values.size()));
    floats_ = values;
  }
  template <class T>
  void one(const std::vector<T>& list) {
    one(static_cast<std::uint32_t>(list.size()));
    if constexpr (Scalar<T>) {
      out_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
    } else {
      for (const T& item : list) {
        one(item);
      }
    }
  }
  template <class T>
  void one(const std::optional<T>& value) {
    one(value.has_value());
    if (value) {
      one(*value);
    }
  }

  std::string& out_;
  Values floats_;
};

/// Throws Error(Input) if the bytes end early or a length is impossible.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes, Values floats = {})
      : bytes_(bytes), floats_(std::move(floats)) {}

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  /// Throws Error(Input) unless everything was read.
  void finish() const {
    if (!bytes_.empty() || floats_.size() != 0) {
      throw Error(ErrorKind::Input, "malformed message: it is longer than its fields");
    }
  }

 private:
  [[nodiscard]] std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      throw Error(ErrorKind::Input, "malformed message: it ends early");
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  template <Scalar T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      one(byte);
      value = byte != 0;
    } else {
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    }
  }
  template <class T>
  requires(!Scalar<T>) void one(T& value) { T::fields(*this, value); }
  [[nodiscard]] std::size_t length() {
    std::uint32_t length = 0;
    one(length);
    return length;
  }
  void one(std::string& text) { text = take(length()); }
  void one(Values& values) {
    std::uint64_t size = 0;
    one(size);
    if (size != floats_.size()) {
      throw Error(ErrorKind::Input, "malformed message: its number of floats is wrong");
    }
    values = std::exchange(floats_, {});
  }
  template <class T>
  void one(std::vector<T>& list) {
    const std::size_t size = length();
    if constexpr (Scalar<T>) {
      const std::string_view taken = take(size * sizeof(T));
      list.resize(size);
      if (size != 0) {
        std::memcpy(list.data(), taken.data(), taken.size());
      }
    } else {
      list.clear();
      for (std::size_t i = 0; i < size; ++i) {  // grows with what is really there
        one(list.emplace_back());
      }
    }
  }
  template <class T>
  void one(std::optional<T>& value) {
    bool has_value = false;
    one(has_value);
    value.reset();
    if (has_value) {
      one(value.emplace());
    }
  }

  std::string_view bytes_;
  Values floats_;
};

}  // namespace trireme::ps
