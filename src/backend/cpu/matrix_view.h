// An einsum seen as a product of matrices. The letters fall into four kinds: in all three operands (a batch),
// in a and the result (rows), in b and the result (columns), in a and b (summed). Letters of one kind that lie
// next to one another in the same order are one dimension with one stride; then the whole is
//
//   y[batch, rows, columns] = a[batch, rows, summed] b[batch, summed, columns]
//
// whatever the operands' layout.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/device.h"

namespace trireme::cpu {

/// Steps in elements.
struct MatrixStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

struct ProductView {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t summed = 1;
  MatrixStrides a{};
  MatrixStrides b{};
  MatrixStrides y{};
};

/// Nothing if the equation does not fall apart so.
[[nodiscard]] std::optional<ProductView> product_view(const KernelRequest& request);

}  // namespace trireme::cpu
