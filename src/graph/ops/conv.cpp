// conv2d: 2-D convolution of every window of an image with the weights of every output channel.
//
//   y[n,o,i,j] = sum over c, k, l of x[n, c, i stride + k - padding, j stride + l - padding] w[o,c,k,l]
//
// Outside of the image x is 0. In the backward, dx and dw are sums over the same products, with dy in place of y. The
// batch and the output channels are free, the input channels are summed; each device needs the whole image, because
// windows overlap any boundary.
//
//   FLOPs = 2 N O H' W' C KH KW, forward and for each gradient
#include "graph/ops/families.h"
#include "graph/ops/window.h"
#include "trireme/op_rules.h"

namespace trireme::ops::conv {
namespace {

/// The three tensors of a convolution; any two of them may be the node's inputs.
struct Convolution {
  Shape x{};  ///< [N,C,H,W]
  Shape w{};  ///< [O,C,KH,KW]
  Shape y{};  ///< [N,O,H',W']
  Windows windows{};
};

void require_images(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_dtype(s, 0, 1);
  rules::require_rank(s, 0, 4);
  rules::require_rank(s, 1, 4);
}

void require_fit(const Signature& s, const Convolution& c) {
  require_room(s, c.windows, area_of(c.x));
  s.require(c.x.dim(1) == c.w.dim(1), "x and w must have the same input channels");
  s.require(c.y.dim(0) == c.x.dim(0), "dy and x must be of the same batch");
  s.require(c.y.dim(1) == c.w.dim(0), "dy and w must have the same output channels");
  s.require(area_of(c.y) == c.windows.places(area_of(c.x)),
            "dy must have a pixel for each place of the window");
}

/// x, w -> y
Convolution forward(const Signature& s) {
  require_images(s);
  Convolution c{.x = s.shape(0), .w = s.shape(1)};
  c.windows = windows_of(s, area_of(c.w));
  require_room(s, c.windows, area_of(c.x));
  const Area places = c.windows.places(area_of(c.x));
  c.y = {c.x.dim(0), c.w.dim(0), places[0], places[1]};
  require_fit(s, c);
  return c;
}

/// dy, w -> dx
Convolution backward_input(const Signature& s) {
  require_images(s);
  const Area size = area_in(s, "size");
  Convolution c{.w = s.shape(1), .y = s.shape(0)};
  c.windows = windows_of(s, area_of(c.w));
  c.x = {c.y.dim(0), c.w.dim(1), size[0], size[1]};
  require_fit(s, c);
  return c;
}

/// dy, x -> dw
Convolution backward_weight(const Signature& s) {
  require_images(s);
  const Area kernel = area_in(s, "kernel");
  Convolution c{.x = s.shape(1), .y = s.shape(0)};
  c.windows = windows_of(s, kernel);
  c.w = {c.y.dim(1), c.x.dim(1), kernel[0], kernel[1]};
  require_fit(s, c);
  return c;
}

using Reading = Convolution (*)(const Signature&);

template <Reading kRead, Shape Convolution::*kResult>
std::vector<TensorType> infer(const Signature& s) {
  return {{s.inputs[0].dtype, kRead(s).*kResult}};
}

template <Reading kRead>
Work work(const Signature& s) {
  const Convolution c = kRead(s);
  const auto taps = static_cast<double>(c.w.dim(1) * size_of(c.windows.kernel));
  return {.products = 2 * static_cast<double>(c.y.element_count()) * taps,
          .bytes = rules::bytes_of_operands(s)};
}

Factors factors_of_letters(const Signature& s, const char* a, const char* b, const char* result) {
  return rules::factors_by_letters(
      s, {.inputs = {a, b}, .outputs = {result}, .unshardable = "hwklij"});
}
Factors factors(const Signature& s) {
  return factors_of_letters(s, "nchw", "ockl", "noij");
}
Factors factors_backward_input(const Signature& s) {
  return factors_of_letters(s, "noij", "ockl", "nchw");
}
Factors factors_backward_weight(const Signature& s) {
  return factors_of_letters(s, "noij", "nchw", "ockl");
}

/// Calls visit(x, w, y) with the indices of each product's two factors and of its sum.
template <class F>
void for_each_product(const Convolution& c, F visit) {
  const std::int64_t channels = c.x.dim(1);
  const std::int64_t places = size_of(area_of(c.y));
  for (std::int64_t y = 0; y < c.y.element_count(); ++y) {
    const std::int64_t n = y / places / c.y.dim(1);
    const std::int64_t o = y / places % c.y.dim(1);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const std::int64_t image = (n * channels + channel) * size_of(area_of(c.x));
      const std::int64_t kernel = (o * channels + channel) * size_of(c.windows.kernel);
      for_each_pixel(
          c.windows, area_of(c.x), y % places,
          [&](std::int64_t tap, std::int64_t pixel) { visit(image + pixel, kernel + tap, y); });
    }
  }
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for_each_product(forward(s), [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    out[0].data[y] += in[0].data[x] * in[1].data[w];
  });
}

void reference_backward_input(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for_each_product(backward_input(s), [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    out[0].data[x] += in[0].data[y] * in[1].data[w];
  });
}

void reference_backward_weight(const Signature& s, std::span<const Dense> in,
                               std::span<Dense> out) {
  for_each_product(backward_weight(s), [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    out[0].data[w] += in[0].data[y] * in[1].data[x];
  });
}

/// The node's stride and padding, and an area.
Attributes with_area_of(const GradientQuery& q, std::string name, std::size_t input) {
  const Area area = area_of(q.builder.shape(q.node.inputs[input]));
  Attributes attributes = q.node.attributes;
  attributes[std::move(name)] = std::vector<std::int64_t>{area[0], area[1]};
  return attributes;
}

std::vector<ValueId> gradient(GradientQuery& q) {
  std::vector<ValueId> gradients(2);
  if (q.wanted[0]) {
    gradients[0] = q.builder.add1("conv2d_backward_input", {q.outputs[0], q.node.inputs[1]},
                                  with_area_of(q, "size", 0));
  }
  if (q.wanted[1]) {
    gradients[1] = q.builder.add1("conv2d_backward_weight", {q.outputs[0], q.node.inputs[0]},
                                  with_area_of(q, "kernel", 1));
  }
  return gradients;
}

using Numbers = std::vector<std::int64_t>;

}  // namespace

std::vector<Op> rows() {
  const AttributeRow stride{"stride", Numbers{1, 1}};
  const AttributeRow padding{"padding", Numbers{0, 0}};
  return {{.name = "conv2d",
           .summary = "y[n,o,h',w'] = windows of x[n,c,h,w] times w[o,c,kh,kw]",
           .inputs = {"x", "w"},
           .outputs = {"y"},
           .attributes = {stride, padding},
           .infer = infer<forward, &Convolution::y>,
           .factors = factors,
           .linear = Linear::Each,
           .work = work<forward>,
           .gradient = gradient,
           .reference = reference},
          {.name = "conv2d_backward_input",
           .summary = "gradient of conv2d's x, whose h and w are the size",
           .inputs = {"dy", "w"},
           .outputs = {"dx"},
           .attributes = {stride, padding, {"size", Numbers(), false}},
           .infer = infer<backward_input, &Convolution::x>,
           .factors = factors_backward_input,
           .linear = Linear::Each,
           .work = work<backward_input>,
           .reference = reference_backward_input},
          {.name = "conv2d_backward_weight",
           .summary = "gradient of conv2d's w, whose kh and kw are the kernel",
           .inputs = {"dy", "x"},
           .outputs = {"dw"},
           .attributes = {stride, padding, {"kernel", Numbers(), false}},
           .infer = infer<backward_weight, &Convolution::w>,
           .factors = factors_backward_weight,
           .linear = Linear::Each,
           .work = work<backward_weight>,
           .reference = reference_backward_weight}};
}

}  // namespace trireme::ops::conv
