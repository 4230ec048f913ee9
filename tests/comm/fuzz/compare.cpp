#include "compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "../wide.h"
#include "elements.h"
#include "inputs.h"
#include "reference.h"

namespace trireme::fuzz {
namespace {

/// Elements that are compared at a time, to limit memory.
constexpr std::int64_t kChunk = 4096;

template <class T>
double to_double(T value) {
  return static_cast<double>(widen(value));
}

/// The tolerance of a result of random values if the order of combining is open.
template <class T>
double slack(const CallView& view, double expected) {
  const double ranks = view.ranks;
  const double fine = std::is_same_v<T, double> ? std::numeric_limits<double>::epsilon()
                                                : std::numeric_limits<float>::epsilon();
  const double rounding = std::is_same_v<T, Float16>    ? 1.0 / 1024
                          : std::is_same_v<T, BFloat16> ? 1.0 / 128
                                                        : fine;
  return rounding * std::abs(expected) + fine * 4 * ranks * std::max(2 * ranks, std::abs(expected));
}

bool is_open_order(const Collective& call) {
  return combines(call.operation) && call.values == Collective::Values::Random &&
         call.order == Order::Any;
}

/// Not ==: distinguishes signed zeros, and a NaN equals itself.
template <class T>
bool same_bits(T a, T b) {
  using Bits = std::array<std::byte, sizeof(T)>;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

template <class T>
bool is_right(const CallView& view, T got, T expected) {
  if (same_bits(got, expected)) {
    return true;
  }
  if (!is_open_order(view.call)) {
    return false;
  }
  const double want = to_double(expected);
  return std::abs(to_double(got) - want) <= slack<T>(view, want);
}

template <class T>
std::string show(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return fmt::format("{} (0x{:0{}x})", to_double(value), bits, 2 * sizeof(value));
}

template <class T>
void compare_chunk(const CallView& view, std::int64_t begin, std::span<const T> got,
                   std::span<const T> expected, Differences& found) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (is_right(view, got[i], expected[i])) {
      continue;
    }
    if (found.count++ == 0) {
      found.first =
          fmt::format("element {} is {}, expected {}", begin + static_cast<std::int64_t>(i),
                      show(got[i]), show(expected[i]));
    }
  }
}

/// Compares `got` with what `expect(begin, span)` fills in; `at` is the index of got[0] in messages.
template <class T, class Expect>
void compare_all(const CallView& view, std::int64_t at, std::span<const T> got,
                 const Expect& expect, Differences& found) {
  std::vector<T> expected;
  const auto total = static_cast<std::int64_t>(got.size());
  for (std::int64_t begin = 0; begin < total; begin += kChunk) {
    const auto length = static_cast<std::size_t>(std::min(kChunk, total - begin));
    expected.resize(length);
    expect(begin, std::span<T>(expected));
    compare_chunk<T>(view, at + begin, got.subspan(begin, length), expected, found);
  }
}

template <class T>
Differences compare_combined(const CallView& view, Rank place, std::span<const T> got) {
  Differences found;
  const bool scattered = view.call.operation == Operation::ReduceScatter;
  const std::int64_t first = scattered ? block_offset(view, place) : 0;
  compare_all<T>(
      view, 0, got,
      [&](std::int64_t begin, std::span<T> out) {
        fill_combined(view, first + begin, std::as_writable_bytes(out));
      },
      found);
  return found;
}

template <class T>
Differences compare_copied(const CallView& view, Rank place, std::span<const T> got) {
  Differences found;
  std::int64_t at = 0;
  for (const Copied& part : copies(view, place)) {
    compare_all<T>(
        view, at, got.subspan(at, part.length),
        [&](std::int64_t begin, std::span<T> out) {
          fill_input(view, part.source, part.begin + begin, std::as_writable_bytes(out));
        },
        found);
    at += part.length;
  }
  return found;
}

}  // namespace

Differences compare_output(const CallView& view, Rank place, std::span<const std::byte> got) {
  return with_type(view.call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return combines(view.call.operation) ? compare_combined<T>(view, place, elements<T>(got))
                                         : compare_copied<T>(view, place, elements<T>(got));
  });
}

Differences compare_input(const CallView& view, Rank place, std::int64_t begin,
                          std::span<const std::byte> got) {
  // Nothing is combined in transit, so every bit counts.
  Collective exact = view.call;
  exact.order = Order::Fixed;
  const CallView strict{exact, view.key, view.ranks};
  return with_type(exact.dtype, [&](auto zero) {
    using T = decltype(zero);
    Differences found;
    compare_all<T>(
        strict, begin, elements<T>(got),
        [&](std::int64_t at, std::span<T> out) {
          fill_input(strict, place, begin + at, std::as_writable_bytes(out));
        },
        found);
    return found;
  });
}

}  // namespace trireme::fuzz
