// An einsum viewed as a matrix product. The letters fall into four kinds: in all three operands (a batch), in a and the
// result (rows), in b and the result (columns), in a and b (summed). Adjacent letters of one kind in the same order are
// one dimension with one stride; then the whole is
//
//   y[batch, rows, columns] = a[batch, rows, summed] b[batch, summed, columns]
//
// for any layout of the operands.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/einsum.h"

namespace trireme {

/// Steps in elements.
struct MatrixStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  auto operator<=>(const MatrixStrides&) const = default;
};

struct ProductView {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t summed = 1;
  MatrixStrides a{};
  MatrixStrides b{};
  MatrixStrides y{};
  auto operator<=>(const ProductView&) const = default;

  /// y^T = b^T a^T: the same product with its operands swapped.
  [[nodiscard]] ProductView transposed() const;
};

/// An equation's letters by kind, each kind in the order of a; columns in the order of b.
struct ProductLetters {
  std::string batch{};
  std::string rows{};
  std::string columns{};
  std::string summed{};
};
[[nodiscard]] ProductLetters letters_by_kind(const EinsumLetters& letters);

/// Nothing if the letters of a kind are not adjacent and in the same order everywhere.
[[nodiscard]] std::optional<ProductView> product_view(const Signature& signature);

}  // namespace trireme
