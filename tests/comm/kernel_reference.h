// What combining must give, element by element, and random inputs with every kind of value. For the tests of the loops.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "comm/kernels/kernels.h"
#include "wide.h"

namespace trireme::comm {

inline constexpr std::size_t kLongest = 4099;  ///< elements of an input

// The reference.

template <class W>
W plain_min(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<W>::quiet_NaN();
    }
    if (a == b) {
      return std::signbit(a) ? a : b;
    }
  }
  return a < b ? a : b;
}

template <class W>
W plain_max(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    return -plain_min(-a, -b);
  } else {
    return a > b ? a : b;
  }
}

template <class W>
W plain_float(Reduction reduction, W a, W b) {
  return reduction == Reduction::Product ? a * b : a + b;
}

template <class W>
W plain_integer(Reduction reduction, W a, W b) {
  const std::uint64_t x = static_cast<std::make_unsigned_t<W>>(a);
  const std::uint64_t y = static_cast<std::make_unsigned_t<W>>(b);
  switch (reduction) {
    case Reduction::Product:
      return static_cast<W>(x * y);
    case Reduction::BitAnd:
      return static_cast<W>(x & y);
    case Reduction::BitOr:
      return static_cast<W>(x | y);
    case Reduction::BitXor:
      return static_cast<W>(x ^ y);
    default:
      return static_cast<W>(x + y);
  }
}

template <class W>
W plain_combine(Reduction reduction, W a, W b) {
  if (reduction == Reduction::Min) {
    return plain_min(a, b);
  }
  if (reduction == Reduction::Max) {
    return plain_max(a, b);
  }
  if constexpr (std::is_floating_point_v<W>) {
    return plain_float(reduction, a, b);
  } else {
    return plain_integer(reduction, a, b);
  }
}

template <class W, class Function>
W plain_fold(Order order, std::span<const W> values, const Function& combine) {
  if (values.size() == 1) {
    return values[0];
  }
  const std::size_t first = order == Order::Fixed ? (values.size() + 1) / 2 : values.size() - 1;
  return combine(plain_fold(order, values.first(first), combine),
                 plain_fold(order, values.subspan(first), combine));
}

template <class W>
W plain_divide(W value, std::int64_t by) {
  if constexpr (std::is_floating_point_v<W>) {
    return value / static_cast<W>(by);
  } else {
    return static_cast<W>(static_cast<std::int64_t>(value) / by);
  }
}

template <class T>
T plain_result(const Combine& how, std::span<const T> column) {
  if (column.size() == 1 && how.divide_by == 1) {
    return column[0];
  }
  std::vector<Wide<T>> values(column.size());
  std::ranges::transform(column, values.begin(), [](T value) { return widen(value); });
  Wide<T> result = plain_fold<Wide<T>>(
      how.order, values, [&](Wide<T> a, Wide<T> b) { return plain_combine(how.reduction, a, b); });
  result = plain_divide(result, how.divide_by);
  if constexpr (std::is_floating_point_v<Wide<T>>) {
    result = std::isnan(result) ? std::numeric_limits<Wide<T>>::quiet_NaN() : result;
  }
  return narrow<T>(result);
}

template <class T>
std::vector<T> plain_results(const Combine& how, std::span<const std::span<const T>> inputs) {
  std::vector<T> results(inputs.front().size());
  std::vector<T> column(inputs.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      column[j] = inputs[j][i];
    }
    results[i] = plain_result<T>(how, column);
  }
  return results;
}

// The data.

template <class T>
T from_bits(std::uint64_t bits) {
  if constexpr (kIsHalf<T>) {
    return {static_cast<std::uint16_t>(bits)};
  } else {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
}

/// Zeros of both signs, infinities, quiet and signalling NaNs with payloads, the ends of the
/// subnormals.
template <class T>
T special_value(std::uint64_t random) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << (8 * sizeof(T) - 1);
  constexpr int kFraction = std::is_same_v<T, double>     ? 52
                            : std::is_same_v<T, float>    ? 23
                            : std::is_same_v<T, BFloat16> ? 7
                                                          : 10;
  constexpr std::uint64_t kNormal = std::uint64_t{1} << kFraction;
  constexpr std::uint64_t kInfinity = (kSign - 1) & ~(kNormal - 1);
  constexpr std::array kMagnitudes{std::uint64_t{0}, kInfinity,        kInfinity + 1,
                                   kSign - 1,        std::uint64_t{1}, kNormal - 1,
                                   kNormal,          kInfinity - 1,    kInfinity + kNormal / 2};
  return from_bits<T>(kMagnitudes.at(random / 2 % kMagnitudes.size()) | (random % 2 * kSign));
}

template <class T>
T number(std::uint64_t random) {
  const auto value = static_cast<Wide<T>>(static_cast<double>(random % 2001) / 64 - 15);
  return narrow<T>(value);
}

/// Mostly numbers near 1, so that many of them combine to something that is neither infinite nor
/// NaN; and a few of everything else.
template <class T>
T random_value(std::mt19937_64& random) {
  const std::uint64_t kind = random() % 64;
  if constexpr (!std::is_integral_v<T>) {
    if (kind == 0) {
      return special_value<T>(random());
    }
    if (kind < 48) {
      return number<T>(random());
    }
  }
  return from_bits<T>(random());
}

/// Elements that begin `shift` elements after an address aligned to 64 bytes, with bytes on both
/// sides that must not change.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t shift) : memory_(DType::U8, kBytes), shift_(kMargin + shift) {
    std::ranges::fill(memory_.raw(), kUntouched);
  }

  [[nodiscard]] std::byte* data() { return memory_.raw().data() + shift_ * sizeof(T); }
  [[nodiscard]] std::span<T> elements() { return {reinterpret_cast<T*>(data()), kLongest}; }

  /// Whether everything but the first `count` elements is unchanged.
  [[nodiscard]] bool untouched_but(std::size_t count) {
    const auto outside = [](std::span<const std::byte> bytes) {
      return std::ranges::all_of(bytes, [](std::byte byte) { return byte == kUntouched; });
    };
    const std::size_t end = (shift_ + count) * sizeof(T);
    const std::size_t watched = std::min(memory_.raw().size() - end, kMargin * sizeof(T));
    return outside(memory_.raw().first(shift_ * sizeof(T))) &&
           outside(memory_.raw().subspan(end, watched));
  }
  void clear(std::size_t count) {
    std::memset(data(), static_cast<int>(kUntouched), count * sizeof(T));
  }

 private:
  static constexpr std::byte kUntouched{0xa5};
  static constexpr std::size_t kMargin = 64;
  static constexpr auto kBytes = static_cast<std::int64_t>((kLongest + 4 * kMargin) * sizeof(T));
  HostBuffer memory_;
  std::size_t shift_;
};

template <class T>
std::vector<Buffer<T>> random_buffers(std::size_t count, std::size_t shift_step) {
  std::mt19937_64 random(7);
  std::vector<Buffer<T>> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    buffers.emplace_back(i * shift_step % 64);
    std::ranges::generate(buffers.back().elements(), [&] { return random_value<T>(random); });
  }
  return buffers;
}

template <class T>
std::vector<std::span<const T>> spans_of(std::vector<Buffer<T>>& buffers, std::size_t count) {
  std::vector<std::span<const T>> spans;
  for (std::size_t i = 0; i < count; ++i) {
    spans.emplace_back(buffers[i].elements());
  }
  return spans;
}

}  // namespace trireme::comm
