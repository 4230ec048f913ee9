#include "graph/ops/window.h"

#include <fmt/format.h>

namespace trireme::ops {

Area Windows::places(const Area& image) const {
  Area result{};
  for (std::size_t d = 0; d < 2; ++d) {
    result[d] = (image[d] + 2 * padding[d] - kernel[d]) / stride[d] + 1;
  }
  return result;
}

Area area_of(const Shape& shape) {
  return {shape.dim(2), shape.dim(3)};
}

Area area_in(const Signature& s, std::string_view attribute) {
  const std::vector<std::int64_t>& numbers = s.integers(attribute);
  s.require(numbers.size() == 2, fmt::format("{} must be [rows,columns]", attribute));
  return {numbers[0], numbers[1]};
}

Shape with_area(const Shape& shape, const Area& area) {
  return {shape.dim(0), shape.dim(1), area[0], area[1]};
}

std::int64_t size_of(const Area& area) {
  return area[0] * area[1];
}

Windows windows_of(const Signature& s, const Area& kernel) {
  const Windows windows{kernel, area_in(s, "stride"), area_in(s, "padding")};
  for (std::size_t d = 0; d < 2; ++d) {
    s.require(kernel[d] >= 1, "the kernel must have a row and a column");
    s.require(windows.stride[d] >= 1, "the stride must be 1 or more");
    s.require(windows.padding[d] >= 0, "the padding must be 0 or more");
  }
  return windows;
}

void require_room(const Signature& s, const Windows& windows, const Area& image) {
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t room = image[d] + 2 * windows.padding[d];
    s.require(image[d] >= 0 && room >= windows.kernel[d],
              fmt::format("a kernel of {} does not fit in {} with padding {}", windows.kernel[d],
                          image[d], windows.padding[d]));
  }
}

}  // namespace trireme::ops
