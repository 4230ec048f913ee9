#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string join(const std::vector<std::int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

void check_dims(const std::vector<std::int64_t>& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      throw Error(ErrorKind::Usage,
                  fmt::format("shape {}: dimension {} is negative", join(dims), dim));
    }
    if (dim > 1 && product > kMax / dim) {
      throw Error(
          ErrorKind::Usage,
          fmt::format("shape {}: the number of elements does not fit in 63 bits", join(dims)));
    }
    product *= std::max<std::int64_t>(dim, 1);
  }
}

[[noreturn]] void bad_shape(std::string_view text) {
  throw Error(ErrorKind::Usage,
              fmt::format("'{}' is not a shape; write it like [2,3], or [] for one element", text));
}

}  // namespace

Shape::Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {
  check_dims(dims_);
}

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::vector<std::int64_t>(dims)) {}

std::int64_t Shape::dim(int axis) const {
  if (axis < 0 || axis >= rank()) {
    throw Error(ErrorKind::Usage,
                fmt::format("shape {} has no dimension {}; it has {}", join(dims_), axis, rank()));
  }
  return dims_[axis];
}

std::int64_t Shape::element_count() const noexcept {
  return std::accumulate(dims_.begin(), dims_.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::int64_t> Shape::strides() const {
  std::vector<std::int64_t> strides(dims_.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims_.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(dims_[i], 1);
  }
  return strides;
}

std::string to_text(const Shape& shape) {
  return join(shape.dims());
}

Shape parse_shape(std::string_view text) {
  const std::string_view whole = trim(text);
  if (whole.size() < 2 || whole.front() != '[' || whole.back() != ']') {
    bad_shape(text);
  }
  const std::string_view inside = trim(whole.substr(1, whole.size() - 2));
  std::vector<std::int64_t> dims;
  if (inside.empty()) {
    return Shape();
  }
  for (const std::string_view part : split(inside, ',')) {
    const std::optional<std::int64_t> dim = parse_integer(trim(part));
    if (!dim) {
      bad_shape(text);
    }
    dims.push_back(*dim);
  }
  return Shape(std::move(dims));
}

}  // namespace trireme
