// Strong types for units, and their text forms. All functions may be called from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// An amount of memory or data.
struct Bytes {
  std::int64_t count = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
};

/// A duration. Also a duration per byte where a name says so (beta, gamma).
struct Seconds {
  double count = 0;
  friend auto operator<=>(const Seconds&, const Seconds&) = default;
};

/// Parses "64KiB", "1M", "10MB", "512". KiB, MiB, GiB, TiB and the bare letters K, M, G, T are
/// powers of 1024; kB, MB, GB, TB are powers of 1000. A fraction is allowed if it gives whole bytes
/// ("1.5K"). Throws Error(Usage) otherwise.
[[nodiscard]] Bytes parse_bytes(std::string_view text);

/// Parses "1.5us", "20ns", "3 ms", "2s", "1e-6" (seconds). Never negative. Throws Error(Usage)
/// otherwise.
[[nodiscard]] Seconds parse_seconds(std::string_view text);

/// "64 KiB", "1.5 MiB", "1000 B": the largest unit that keeps at most four significant digits
/// exact, else rounded.
[[nodiscard]] std::string to_text(Bytes bytes);

/// "1.5 us", "7.986 us", "2.1 ms": four significant digits in the most readable unit.
[[nodiscard]] std::string to_text(Seconds seconds);

}  // namespace trireme
