// einsum by oneDNN's matrix product. The letters fall into four kinds: in all three operands (a batch), in a
// and the result (rows), in b and the result (columns), in a and b (summed). Letters of one kind that lie next
// to one another in the same order are one dimension with one stride; then the whole is
// [batch, rows, summed] x [batch, summed, columns], whatever the operands' layout. Equations that do not fall
// apart so are left to the reference.
#include <array>
#include <optional>
#include <string>

#include <dnnl.hpp>

#include "backend/cpu/kernel.h"
#include "backend/cpu/library.h"
#include "graph/einsum.h"

namespace trireme::cpu {
namespace {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// The letters of `from` that are in `and_in` and, as `in_third` says, in `third`.
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

/// Size and stride of letters as one dimension of an operand; nothing if they are not one.
struct Dimension {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};
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

/// One operand as [batch, rows, columns].
std::optional<dnnl::memory::desc> describe(const std::array<std::string, 3>& kinds,
                                           const std::string& operand, const TensorType& type,
                                           dnnl::memory::data_type element) {
  dnnl::memory::dims dims;
  dnnl::memory::dims strides;
  for (const std::string& kind : kinds) {
    const auto dimension = collapse(kind, operand, type.shape);
    if (!dimension) {
      return std::nullopt;
    }
    dims.push_back(dimension->size);
    strides.push_back(kind.empty() ? type.shape.element_count() : dimension->stride);
  }
  return dnnl::memory::desc(dims, element, strides);
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
  explicit PreparedMatmul(const dnnl::matmul::primitive_desc& row) : row_(row), matmul_(row) {}
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
        std::array{dnnl::memory(row_.src_desc(), engine, writable(memory.inputs[0])),
                   dnnl::memory(row_.weights_desc(), engine, writable(memory.inputs[1])),
                   dnnl::memory(row_.dst_desc(), engine, memory.outputs[0])},
        dnnl::memory(row_.scratchpad_desc(), engine, memory.workspace));
  }

 private:
  dnnl::matmul::primitive_desc row_;
  dnnl::matmul matmul_;
};

std::unique_ptr<PreparedKernel> einsum(const KernelRequest& request) {
  const auto element = library_type(request.inputs[0].dtype);
  const bool empty =
      request.inputs[0].shape.element_count() == 0 || request.inputs[1].shape.element_count() == 0;
  if (!element || empty) {
    return nullptr;
  }
  const EinsumLetters l = parse_equation(signature_of(request));
  const std::string batch = common(l.a, l.b, l.result, true);
  const std::string rows = common(l.a, l.result, l.b, false);
  const std::string columns = common(l.b, l.result, l.a, false);
  const std::string summed = common(l.a, l.b, l.result, false);
  const auto a = describe({batch, rows, summed}, l.a, request.inputs[0], *element);
  const auto b = describe({batch, summed, columns}, l.b, request.inputs[1], *element);
  const auto y = describe({batch, rows, columns}, l.result, request.outputs[0], *element);
  if (!a || !b || !y) {
    return nullptr;
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    return std::make_unique<PreparedMatmul>(
        dnnl::matmul::primitive_desc(dnnl::matmul::desc(*a, *b, *y), attributes, library_engine()));
  } catch (const dnnl::error&) {
    return nullptr;  // not on this processor
  }
}

constexpr std::array kRows{KernelRow{"einsum", einsum}};

}  // namespace

std::span<const KernelRow> library_kernels() {
  return kRows;
}

}  // namespace trireme::cpu
