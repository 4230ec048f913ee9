// A matrix product with cuBLASLt, which is column-major: a row-major y = a b is the column-major y^T = b^T a^T. Of the
// algorithms that its heuristic proposes, uses the fastest on this device, timed once for each shape; the first
// proposal is up to 1.35 times slower. Any thread.
#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "graph/product_view.h"
#include "trireme/tensor.h"

namespace trireme::cuda {

inline constexpr std::size_t kProductWorkspace = std::size_t{64} << 20U;

/// The library's epilogue of a product.
enum class Follow : std::uint8_t { Nothing, Bias, BiasGelu, GeluBackward };

struct ProductKind {
  ProductView view{};
  DType dtype{};
  Follow follow = Follow::Nothing;
  bool adds = false;  ///< an addend like the result
  auto operator<=>(const ProductKind&) const = default;
};

/// The addresses that a product reads and writes.
struct ProductAddresses {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  const void* bias = nullptr;
  const void* aux = nullptr;  ///< gelu's operand: written by BiasGelu, read by GeluBackward
  const void* addend = nullptr;
  void* workspace = nullptr;
};

/// A product of known shapes and types, with its algorithm.
class Product {
 public:
  Product() = default;
  virtual ~Product() = default;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  virtual void enqueue(const ProductAddresses& at, cudaStream_t stream) const = 0;
};

[[nodiscard]] bool has_products_of(DType dtype);

/// Shared by all kernels of the same kind on the current device; nullptr if the library has no algorithm.
[[nodiscard]] std::shared_ptr<const Product> product_of(const ProductKind& kind);

}  // namespace trireme::cuda
