// einsum by oneDNN's matrix product; see matrix_view.h.
#include <array>
#include <optional>
#include <unordered_map>

#include <dnnl.hpp>

#include "backend/cpu/kernel.h"
#include "backend/cpu/library.h"
#include "backend/cpu/matrix_view.h"

namespace trireme::cpu {
namespace {

/// A dimension of one element may have any stride; the library wants one that could be.
dnnl::memory::desc describe(const MatrixStrides& strides, std::int64_t batch, std::int64_t rows,
                            std::int64_t columns, dnnl::memory::data_type element) {
  return {{batch, rows, columns},
          element,
          {batch == 1 ? rows * columns : strides.batch, rows == 1 ? columns : strides.row,
           columns == 1 ? 1 : strides.column}};
}

/// y^T = b^T a^T: the same product with its operands exchanged.
ProductView transposed(const ProductView& v) {
  const auto turned = [](const MatrixStrides& m) {
    return MatrixStrides{m.batch, m.column, m.row};
  };
  return {.batch = v.batch,
          .rows = v.columns,
          .columns = v.rows,
          .summed = v.summed,
          .a = turned(v.b),
          .b = turned(v.a),
          .y = turned(v.y)};
}

class MatmulKernel : public Kernel {
 public:
  MatmulKernel(const dnnl::matmul& matmul, std::array<dnnl::memory, 3> operands,
               const dnnl::memory& scratch)
      : matmul_(matmul),
        arguments_{{DNNL_ARG_SRC, operands[0]},
                   {DNNL_ARG_WEIGHTS, operands[1]},
                   {DNNL_ARG_DST, operands[2]},
                   {DNNL_ARG_SCRATCHPAD, scratch}} {}
  void run() override {
    matmul_.execute(library_stream(), arguments_);
    library_stream().wait();
  }

 private:
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

class PreparedMatmul : public PreparedKernel {
 public:
  /// `a`: which input is the first operand.
  PreparedMatmul(const dnnl::matmul::primitive_desc& row, std::size_t a)
      : row_(row), matmul_(row), a_(a) {}
  [[nodiscard]] Bytes workspace() const override {
    return {static_cast<std::int64_t>(row_.scratchpad_desc().get_size())};
  }
  [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& memory) override {
    const dnnl::engine& engine = library_engine();
    // oneDNN takes inputs as memory that could be written; it does not.
    const auto writable = [](const std::byte* data) {
      return const_cast<std::byte*>(data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    };
    return std::make_unique<MatmulKernel>(
        matmul_,
        std::array{dnnl::memory(row_.src_desc(), engine, writable(memory.inputs[a_])),
                   dnnl::memory(row_.weights_desc(), engine, writable(memory.inputs[1 - a_])),
                   dnnl::memory(row_.dst_desc(), engine, memory.outputs[0])},
        dnnl::memory(row_.scratchpad_desc(), engine, memory.workspace));
  }

 private:
  dnnl::matmul::primitive_desc row_;
  dnnl::matmul matmul_;
  std::size_t a_;
};

}  // namespace

std::unique_ptr<PreparedKernel> library_einsum(const KernelRequest& request) {
  const auto element = library_type(request.inputs[0].dtype);
  const bool empty =
      request.inputs[0].shape.element_count() == 0 || request.inputs[1].shape.element_count() == 0;
  if (!element || empty) {
    return nullptr;
  }
  std::optional<ProductView> v = product_view(request);
  if (!v) {
    return nullptr;
  }
  // A result by columns would be left to the library's plainest loop.
  const bool by_columns = v->y.column != 1 && v->y.row == 1;
  if (by_columns) {
    v = transposed(*v);
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    return std::make_unique<PreparedMatmul>(
        dnnl::matmul::primitive_desc(
            dnnl::matmul::desc(describe(v->a, v->batch, v->rows, v->summed, *element),
                               describe(v->b, v->batch, v->summed, v->columns, *element),
                               describe(v->y, v->batch, v->rows, v->columns, *element)),
            attributes, library_engine()),
        by_columns ? 1 : 0);
  } catch (const dnnl::error&) {
    return nullptr;  // not on this processor
  }
}

}  // namespace trireme::cpu
