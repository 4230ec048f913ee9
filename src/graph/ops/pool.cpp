// max_pool, avg_pool: the maximum, or the mean, of every window of every channel.
//
//   max_pool: y[n,c,i,j] = the largest pixel under the window; padding is never the largest
//   avg_pool: y[n,c,i,j] = the sum of the pixels under the window / (KH KW); padding counts as 0
//
// In the backward, the gradient of a maximum goes to the first pixel, in row-major order, that is the largest; that of
// a mean is distributed equally. Batch and channels are free.
#include <optional>

#include "graph/ops/families.h"
#include "graph/ops/window.h"
#include "trireme/op_rules.h"

namespace trireme::ops::pool {
namespace {

/// The windows over an image [N,C,H,W], each with at least one pixel.
Windows windows_over(const Signature& s, const Area& image) {
  const Windows windows = windows_of(s, area_in(s, "kernel"));
  require_room(s, windows, image);
  for (std::size_t d = 0; d < 2; ++d) {
    s.require(image[d] >= 1, "the image must have a pixel");
    s.require(windows.padding[d] < windows.kernel[d], "the padding must be less than the kernel");
  }
  return windows;
}

void require_image(const Signature& s, std::size_t input) {
  rules::require_float(s, input);
  rules::require_rank(s, input, 4);
}

std::vector<TensorType> infer(const Signature& s) {
  require_image(s, 0);
  const Area image = area_of(s.shape(0));
  return {{s.inputs[0].dtype, with_area(s.shape(0), windows_over(s, image).places(image))}};
}

Factors factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"nchw"}, .outputs = {"ncij"}, .unshardable = "hwij"});
}

/// FLOPs for each pixel under each window; y (or dy) determines the windows.
Work work_of_windows(const Signature& s, const Shape& y) {
  return {.others = static_cast<double>(y.element_count() * size_of(area_in(s, "kernel"))),
          .bytes = rules::bytes_of_operands(s)};
}
Work work(const Signature& s) {
  return work_of_windows(s, infer(s).front().shape);
}
Work work_backward(const Signature& s) {
  return work_of_windows(s, s.shape(0));
}

/// Calls visit(y, x) for each pixel x under each window y of images of this shape.
template <class F>
void for_each_pair(const Signature& s, const Shape& images, F visit) {
  const Area image = area_of(images);
  const Windows windows = windows_over(s, image);
  const std::int64_t places = size_of(windows.places(image));
  const std::int64_t all = images.dim(0) * images.dim(1) * places;
  for (std::int64_t y = 0; y < all; ++y) {
    for_each_pixel(windows, image, y % places, [&](std::int64_t, std::int64_t pixel) {
      visit(y, y / places * size_of(image) + pixel);
    });
  }
}

/// For each window the first of its largest pixels.
std::vector<std::int64_t> largest(const Signature& s, const Dense& x, std::size_t windows) {
  std::vector<std::optional<std::int64_t>> found(windows);
  for_each_pair(s, x.shape, [&](std::int64_t window, std::int64_t pixel) {
    if (!found[window] || x.data[pixel] > x.data[*found[window]]) {
      found[window] = pixel;
    }
  });
  std::vector<std::int64_t> pixels;
  pixels.reserve(windows);
  for (const std::optional<std::int64_t>& pixel : found) {
    pixels.push_back(pixel.value());
  }
  return pixels;
}

void reference_max(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::vector<std::int64_t> pixels = largest(s, in[0], out[0].data.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    out[0].data[i] = in[0].data[pixels[i]];
  }
}

void reference_average(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const auto share = static_cast<double>(size_of(area_in(s, "kernel")));
  for_each_pair(s, in[0].shape, [&](std::int64_t window, std::int64_t pixel) {
    out[0].data[window] += in[0].data[pixel] / share;
  });
}

std::vector<ValueId> max_gradient(GradientQuery& q) {
  return {q.builder.add1("max_pool_backward", {q.outputs[0], q.node.inputs[0]}, q.node.attributes)};
}

std::vector<ValueId> average_gradient(GradientQuery& q) {
  const Area image = area_of(q.builder.shape(q.node.inputs[0]));
  Attributes attributes = q.node.attributes;
  attributes["size"] = std::vector<std::int64_t>{image[0], image[1]};
  return {q.builder.add1("avg_pool_backward", {q.outputs[0]}, std::move(attributes))};
}

// Backward: dy, x -> dx and dy -> dx

void require_places(const Signature& s, const Shape& x) {
  s.require(s.shape(0) == with_area(x, windows_over(s, area_of(x)).places(area_of(x))),
            "dy must have a pixel for each place of the window");
}

std::vector<TensorType> infer_max_backward(const Signature& s) {
  require_image(s, 0);
  require_image(s, 1);
  rules::require_same_dtype(s, 0, 1);
  require_places(s, s.shape(1));
  return {s.inputs[1]};
}

std::vector<TensorType> infer_average_backward(const Signature& s) {
  require_image(s, 0);
  const Area size = area_in(s, "size");
  s.require(size[0] >= 1 && size[1] >= 1, "the image must have a pixel");
  const Shape x = with_area(s.shape(0), size);
  require_places(s, x);
  return {{s.inputs[0].dtype, x}};
}

Factors factors_max_backward(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"ncij", "nchw"}, .outputs = {"nchw"}, .unshardable = "hwij"});
}
Factors factors_average_backward(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"ncij"}, .outputs = {"nchw"}, .unshardable = "hwij"});
}

void reference_max_backward(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::vector<std::int64_t> pixels = largest(s, in[1], in[0].data.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    out[0].data[pixels[i]] += in[0].data[i];
  }
}

void reference_average_backward(const Signature& s, std::span<const Dense> in,
                                std::span<Dense> out) {
  const auto share = static_cast<double>(size_of(area_in(s, "kernel")));
  for_each_pair(s, out[0].shape, [&](std::int64_t window, std::int64_t pixel) {
    out[0].data[pixel] += in[0].data[window] / share;
  });
}

using Numbers = std::vector<std::int64_t>;

/// The attributes of all pools, and additional ones of one.
std::vector<AttributeRow> attributes(std::vector<AttributeRow> more = {}) {
  std::vector<AttributeRow> rows{
      {"kernel", Numbers(), false}, {"stride", Numbers{1, 1}}, {"padding", Numbers{0, 0}}};
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "max_pool",
           .summary = "y[n,c,h',w'] = the largest pixel of every window of x[n,c,h,w]",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = attributes(),
           .infer = infer,
           .factors = factors,
           .work = work,
           .gradient = max_gradient,
           .reference = reference_max},
          {.name = "max_pool_backward",
           .summary = "dx = dy at the first largest pixel of each window",
           .inputs = {"dy", "x"},
           .outputs = {"dx"},
           .attributes = attributes(),
           .infer = infer_max_backward,
           .factors = factors_max_backward,
           .work = work_backward,
           .reference = reference_max_backward},
          {.name = "avg_pool",
           .summary = "y[n,c,h',w'] = the mean of every window of x[n,c,h,w]",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = attributes(),
           .infer = infer,
           .factors = factors,
           .linear = Linear::Joint,
           .work = work,
           .gradient = average_gradient,
           .reference = reference_average},
          {.name = "avg_pool_backward",
           .summary = "dx = dy in equal shares to each window, whose image has the size",
           .inputs = {"dy"},
           .outputs = {"dx"},
           .attributes = attributes({{"size", Numbers(), false}}),
           .infer = infer_average_backward,
           .factors = factors_average_backward,
           .linear = Linear::Joint,
           .work = work_backward,
           .reference = reference_average_backward}};
}

}  // namespace trireme::ops::pool
