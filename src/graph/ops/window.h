// Windows: rectangles that slide over the last two dimensions of an image, for convolutions and pools. A window at
// place (i, j) covers the rows i stride - padding + 0 .. kernel-1, and likewise columns; pixels outside the image are
// padding.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "trireme/op.h"

namespace trireme::ops {

/// Of rows and of columns.
using Area = std::array<std::int64_t, 2>;

struct Windows {
  Area kernel{};
  Area stride{};
  Area padding{};

  /// How many places an image has: (image + 2 padding - kernel) / stride + 1, rounded down.
  [[nodiscard]] Area places(const Area& image) const;
};

/// The last two dimensions of [N,C,H,W].
[[nodiscard]] Area area_of(const Shape& shape);
/// An attribute that is [rows, columns].
[[nodiscard]] Area area_in(const Signature& s, std::string_view attribute);
/// [N,C,H,W] with another area.
[[nodiscard]] Shape with_area(const Shape& shape, const Area& area);
[[nodiscard]] std::int64_t size_of(const Area& area);

/// Windows of this kernel with the node's stride and padding. Rejects invalid ones.
[[nodiscard]] Windows windows_of(const Signature& s, const Area& kernel);
/// Rejects an image that is smaller, with its padding, than the window.
void require_room(const Signature& s, const Windows& windows, const Area& image);

/// Calls visit(tap, pixel) for each pixel of the image under the window at this place (its row-major index), with the
/// pixel's position in the kernel.
template <class F>
void for_each_pixel(const Windows& windows, const Area& image, std::int64_t place, F visit) {
  const std::int64_t columns = windows.places(image)[1];
  const std::int64_t top = place / columns * windows.stride[0] - windows.padding[0];
  const std::int64_t left = place % columns * windows.stride[1] - windows.padding[1];
  for (std::int64_t tap = 0; tap < size_of(windows.kernel); ++tap) {
    const std::int64_t row = top + tap / windows.kernel[1];
    const std::int64_t column = left + tap % windows.kernel[1];
    if (row >= 0 && row < image[0] && column >= 0 && column < image[1]) {
      visit(tap, row * image[1] + column);
    }
  }
}

}  // namespace trireme::ops
