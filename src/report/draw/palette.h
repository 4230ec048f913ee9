// Colors for numbered items: blocks, ranks, algorithms. Callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::report {

inline constexpr std::string_view kInk = "#1b1f24";    ///< text
inline constexpr std::string_view kQuiet = "#6b7280";  ///< remarks
inline constexpr std::string_view kGrid = "#e7e9ed";   ///< lines behind a plot

/// `count` hues at equal distances around the color wheel. Neighbors also differ in lightness, so
/// that they stay distinct for color-blind readers and in print without color. Dark text is
/// readable on every fill.
class Palette {
 public:
  explicit Palette(std::size_t count) : count_(count) {}

  /// "#rrggbb" for an area. `strength` 0 is almost white, 1 the full color.
  [[nodiscard]] std::string fill(std::size_t index, double strength) const;
  /// "#rrggbb" of the same hue, dark enough for lines and text on white.
  [[nodiscard]] std::string ink(std::size_t index) const;

 private:
  [[nodiscard]] double hue(std::size_t index) const;
  std::size_t count_;
};

}  // namespace trireme::report
