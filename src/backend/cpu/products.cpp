// einsum by oneDNN's matrix product; see graph/product_view.h.
#include <array>
#include <compare>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <dnnl.hpp>

#include "backend/cpu/kernel.h"
#include "backend/cpu/library.h"
#include "backend/cpu/shared_by_key.h"
#include "graph/product_view.h"

namespace trireme::cpu {
namespace {

/// A dimension of one element may have any stride; the library requires a valid one.
dnnl::memory::desc describe(const MatrixStrides& strides, std::int64_t batch, std::int64_t rows,
                            std::int64_t columns, dnnl::memory::data_type element) {
  return {{batch, rows, columns},
          element,
          {batch == 1 ? rows * columns : strides.batch, rows == 1 ? columns : strides.row,
           columns == 1 ? 1 : strides.column}};
}

struct ProductKey {
  ProductView view{};
  DType dtype{};
  auto operator<=>(const ProductKey&) const = default;
};

dnnl::matmul make_product(const ProductKey& key) {
  const ProductView& v = key.view;
  const auto element = library_type(key.dtype).value();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return dnnl::matmul(dnnl::matmul::primitive_desc(
      dnnl::matmul::desc(describe(v.a, v.batch, v.rows, v.summed, element),
                         describe(v.b, v.batch, v.summed, v.columns, element),
                         describe(v.y, v.batch, v.rows, v.columns, element)),
      attributes, library_engine()));
}

/// Shared by all kernels of the same shape: a model has many layers, a step many micro-batches, and the library takes
/// some 10 KB for each primitive. Throws dnnl::error if this processor does not support it.
std::shared_ptr<const dnnl::matmul> product_of(const ProductKey& key) {
  static SharedByKey<ProductKey, dnnl::matmul> products;
  return products.get(key, make_product);
}

const dnnl_memory_desc_t* operand_of(const dnnl::matmul& product, dnnl_query_t which) {
  return dnnl_primitive_desc_query_md(product.get_primitive_desc(), which, 0);
}

struct DestroyMemory {
  void operator()(dnnl_memory_t memory) const { dnnl_memory_destroy(memory); }
};
using OwnMemory = std::unique_ptr<std::remove_pointer_t<dnnl_memory_t>, DestroyMemory>;

/// Runs a product. The library's memory descriptors take 4 KB, so they are created for each call, in under a
/// microsecond for all four, and not kept.
class Matmul {
 public:
  /// `a`: which input is the first operand.
  Matmul(std::shared_ptr<const dnnl::matmul> product, std::size_t a)
      : product_(std::move(product)), a_(a) {}

  void operator()(const KernelMemory& memory) const {
    // oneDNN takes inputs as non-const memory, but does not write to them.
    const auto writable = [](const std::byte* data) {
      return const_cast<std::byte*>(data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    };
    const OwnMemory a = place(dnnl_query_src_md, writable(memory.inputs[a_]));
    const OwnMemory b = place(dnnl_query_weights_md, writable(memory.inputs[1 - a_]));
    const OwnMemory y = place(dnnl_query_dst_md, memory.outputs[0]);
    const OwnMemory scratch = place(dnnl_query_scratchpad_md, memory.workspace);
    const std::array arguments{dnnl_exec_arg_t{DNNL_ARG_SRC, a.get()},
                               dnnl_exec_arg_t{DNNL_ARG_WEIGHTS, b.get()},
                               dnnl_exec_arg_t{DNNL_ARG_DST, y.get()},
                               dnnl_exec_arg_t{DNNL_ARG_SCRATCHPAD, scratch.get()}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(product_->get(), library_stream().get(),
                               static_cast<int>(arguments.size()), arguments.data()),
        "oneDNN could not run a matrix product");
    library_stream().wait();
  }

 private:
  [[nodiscard]] OwnMemory place(dnnl_query_t operand, std::byte* data) const {
    dnnl_memory_t memory = nullptr;
    dnnl::error::wrap_c_api(
        dnnl_memory_create(&memory, operand_of(*product_, operand), library_engine().get(), data),
        "oneDNN could not describe an operand");
    return OwnMemory(memory);
  }

  std::shared_ptr<const dnnl::matmul> product_;
  std::size_t a_;
};

}  // namespace

std::unique_ptr<PreparedKernel> library_einsum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  const bool empty =
      request.inputs[0].shape.element_count() == 0 || request.inputs[1].shape.element_count() == 0;
  if (!library_type(dtype) || empty) {
    return nullptr;
  }
  std::optional<ProductView> v = product_view(signature_of(request));
  if (!v) {
    return nullptr;
  }
  // The library would use its slowest loop for a column-major result.
  const bool by_columns = v->y.column != 1 && v->y.row == 1;
  if (by_columns) {
    v = v->transposed();
  }
  try {
    auto product = product_of({*v, dtype});
    const auto workspace = static_cast<std::int64_t>(
        dnnl_memory_desc_get_size(operand_of(*product, dnnl_query_scratchpad_md)));
    return kernel(Matmul(std::move(product), by_columns ? 1 : 0), {workspace});
  } catch (const dnnl::error&) {
    return nullptr;  // not supported on this processor
  }
}

}  // namespace trireme::cpu
