#include "graph/product_view.h"

#include <string>

#include "graph/einsum.h"

namespace trireme {
namespace {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// The letters of `from` that are also in `and_in` and, depending on `in_third`, in `third`.
std::string common(const std::string& from, const std::string& and_in, const std::string& third,
                   bool in_third) {
  std::string letters;
  for (const char letter : from) {
    if (has(and_in, letter) && has(third, letter) == in_third) {
      letters.push_back(letter);
    }
  }
  return letters;
}

struct Dimension {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};

/// Letters as one dimension of an operand; nothing if they cannot be merged.
std::optional<Dimension> collapse(const std::string& letters, const std::string& operand,
                                  const Shape& shape) {
  const std::size_t at = operand.find(letters);
  if (at == std::string::npos) {
    return std::nullopt;
  }
  Dimension dimension;
  const std::vector<std::int64_t> strides = shape.strides();
  for (std::size_t d = at; d < at + letters.size(); ++d) {
    dimension.size *= shape.dim(static_cast<int>(d));
    dimension.stride = strides[d];
  }
  return dimension;
}

struct Matrix {
  Dimension batch, row, column;
};

std::optional<Matrix> matrix_of(const std::string& batch, const std::string& rows,
                                const std::string& columns, const std::string& operand,
                                const Shape& shape) {
  const auto b = collapse(batch, operand, shape);
  const auto r = collapse(rows, operand, shape);
  const auto c = collapse(columns, operand, shape);
  return b && r && c ? std::optional<Matrix>({*b, *r, *c}) : std::nullopt;
}

MatrixStrides strides_of(const Matrix& matrix) {
  return {matrix.batch.stride, matrix.row.stride, matrix.column.stride};
}

}  // namespace

ProductLetters letters_by_kind(const EinsumLetters& l) {
  ProductLetters kinds;
  kinds.batch = common(l.a, l.b, l.result, true);
  kinds.rows = common(l.a, l.result, l.b, false);
  kinds.columns = common(l.b, l.result, l.a, false);
  kinds.summed = common(l.a, l.b, l.result, false);
  return kinds;
}

ProductView ProductView::transposed() const {
  const auto turned = [](const MatrixStrides& m) {
    return MatrixStrides{m.batch, m.column, m.row};
  };
  return {.batch = batch,
          .rows = columns,
          .columns = rows,
          .summed = summed,
          .a = turned(b),
          .b = turned(a),
          .y = turned(y)};
}

std::optional<ProductView> product_view(const Signature& signature) {
  const EinsumLetters l = parse_equation(signature);
  const auto [batch, rows, columns, summed] = letters_by_kind(l);
  const auto a = matrix_of(batch, rows, summed, l.a, signature.shape(0));
  const auto b = matrix_of(batch, summed, columns, l.b, signature.shape(1));
  const auto y =
      matrix_of(batch, rows, columns, l.result, signature.op->infer(signature).front().shape);
  if (!a || !b || !y) {
    return std::nullopt;
  }
  return ProductView{.batch = y->batch.size,
                     .rows = y->row.size,
                     .columns = y->column.size,
                     .summed = a->column.size,
                     .a = strides_of(*a),
                     .b = strides_of(*b),
                     .y = strides_of(*y)};
}

}  // namespace trireme
