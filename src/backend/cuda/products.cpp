// The kernels of einsum and its fused forms.
//
// An addend is the library's C. A bias, gelu and its derivative are the library's epilogues in 16-bit types; otherwise a
// kernel of our own follows the product.
#include <array>
#include <memory>
#include <optional>

#include "backend/cuda/kernel.h"
#include "backend/cuda/library_product.h"
#include "graph/product_view.h"
#include "tensor/container_size.h"

namespace trireme::cuda {
namespace {

/// Nothing to sum: zeros.
Launch clear_result(const KernelRequest& request) {
  const std::size_t bytes = container_size(size_of(request.outputs[0]));
  return {.enqueue = [bytes](const KernelMemory& m, cudaStream_t stream) {
    cuda::check(cudaMemsetAsync(m.outputs[0], 0, bytes, stream), "clearing a product");
  }};
}

/// The product of a node's first two operands.
std::optional<ProductView> view_of(const KernelRequest& request) {
  return product_view({.op = &op_named("einsum"),
                       .inputs = {request.inputs[0], request.inputs[1]},
                       .attributes = &request.attributes});
}

bool has_columns_last(const ProductView& v) {
  return v.y.column == 1 || v.columns == 1 || v.y.row != 1;
}

std::optional<Launch> prepare_einsum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!has_products_of(dtype)) {
    return std::nullopt;
  }
  if (request.inputs[0].shape.element_count() == 0 ||
      request.inputs[1].shape.element_count() == 0) {
    return clear_result(request);
  }
  const std::optional<ProductView> v = view_of(request);
  if (!v) {
    return std::nullopt;
  }
  const std::size_t first = has_columns_last(*v) ? 0 : 1;
  const std::shared_ptr<const Product> product =
      product_of({.view = first == 0 ? *v : v->transposed(), .dtype = dtype});
  if (product == nullptr) {
    return std::nullopt;
  }
  return Launch{.enqueue =
                    [product, first](const KernelMemory& m, cudaStream_t stream) {
                      product->enqueue({.a = m.inputs[first],
                                        .b = m.inputs[1 - first],
                                        .y = m.outputs[0],
                                        .workspace = m.workspace},
                                       stream);
                    },
                .workspace = {static_cast<std::int64_t>(kProductWorkspace)}};
}

/// A node of graph/ops/products.cpp. Operands by number; 0: it has none.
struct FusedProduct {
  std::size_t bias = 0;
  std::size_t addend = 0;
  std::size_t x = 0;           ///< whose gelu' multiplies the product
  bool keeps_operand = false;  ///< its result is a gelu
};

FusedProduct fused_product(const Op& op) {
  FusedProduct fused{.keeps_operand = op.outputs.size() == 2};
  for (std::size_t k = 2; k < op.inputs.size(); ++k) {
    (op.inputs[k] == "bias" ? fused.bias : op.inputs[k] == "addend" ? fused.addend : fused.x) = k;
  }
  return fused;
}

Follow follow_of(const FusedProduct& fused) {
  return fused.x > 0           ? Follow::GeluBackward
         : fused.keeps_operand ? Follow::BiasGelu
         : fused.bias > 0      ? Follow::Bias
                               : Follow::Nothing;
}

/// Whether the library supports the epilogue: rows are aligned, and the bias has the length of a row.
bool may_follow(const KernelRequest& request, const FusedProduct& fused, const ProductView& v) {
  const std::int64_t columns =
      fused.bias > 0 ? request.inputs[fused.bias].shape.element_count() : v.columns;
  return size_of(request.inputs[0].dtype).count == 2 && v.batch == 1 && v.y.column == 1 &&
         v.y.row == v.columns && columns == v.columns && v.columns % 8 == 0;
}

/// Of the library alone.
Launch launch_fused(const std::shared_ptr<const Product>& product, const FusedProduct& fused) {
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                product->enqueue({.a = m.inputs[0],
                                  .b = m.inputs[1],
                                  .y = m.outputs[0],
                                  .bias = m.inputs[fused.bias],
                                  .aux = fused.keeps_operand ? m.outputs[1] : m.inputs[fused.x],
                                  .addend = m.inputs[fused.addend],
                                  .workspace = m.workspace},
                                 stream);
              },
          .workspace = {static_cast<std::int64_t>(kProductWorkspace)}};
}

/// The library's product, then a kernel of our own. `first`: its first operand.
Launch launch_apart(const KernelRequest& request, const std::shared_ptr<const Product>& product,
                    const FusedProduct& fused, std::size_t first) {
  const DType dtype = request.inputs[0].dtype;
  const std::int64_t count = request.outputs[0].shape.element_count();
  const std::int64_t period = fused.bias > 0 ? request.inputs[fused.bias].shape.element_count() : 1;
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                product->enqueue({.a = m.inputs[first],
                                  .b = m.inputs[1 - first],
                                  .y = m.outputs[0],
                                  .addend = m.inputs[fused.addend],
                                  .workspace = m.workspace},
                                 stream);
                if (fused.bias > 0 || fused.x > 0) {
                  enqueue_epilogue(dtype, m.outputs[0], count,
                                   {.bias = fused.bias > 0 ? m.inputs[fused.bias] : nullptr,
                                    .period = period,
                                    .before = fused.keeps_operand ? m.outputs[1] : nullptr,
                                    .slope_at = fused.x > 0 ? m.inputs[fused.x] : nullptr},
                                   stream);
                }
              },
          .workspace = {static_cast<std::int64_t>(kProductWorkspace)}};
}

std::optional<Launch> prepare_fused(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  const std::optional<ProductView> v = has_products_of(dtype) ? view_of(request) : std::nullopt;
  if (!v || request.inputs[0].shape.element_count() == 0 ||
      request.inputs[1].shape.element_count() == 0) {
    return std::nullopt;
  }
  const FusedProduct fused = fused_product(*request.op);
  const bool adds = fused.addend > 0;
  if (may_follow(request, fused, *v)) {
    if (const auto product =
            product_of({.view = *v, .dtype = dtype, .follow = follow_of(fused), .adds = adds})) {
      return launch_fused(product, fused);
    }
  }
  const std::size_t first = has_columns_last(*v) ? 0 : 1;
  const auto product =
      product_of({.view = first == 0 ? *v : v->transposed(), .dtype = dtype, .adds = adds});
  return product == nullptr ? std::nullopt
                            : std::optional(launch_apart(request, product, fused, first));
}

}  // namespace

std::span<const KernelRow> product_kernels() {
  static constexpr std::array kRows{KernelRow{"einsum", prepare_einsum},
                                    KernelRow{"einsum_add", prepare_fused},
                                    KernelRow{"einsum_bias", prepare_fused},
                                    KernelRow{"einsum_bias_add", prepare_fused},
                                    KernelRow{"einsum_bias_gelu", prepare_fused},
                                    KernelRow{"einsum_gelu_backward", prepare_fused}};
  return kRows;
}

}  // namespace trireme::cuda
