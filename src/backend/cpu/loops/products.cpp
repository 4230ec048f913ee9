// einsum for cases that the library does not multiply directly.
//
//   f64                            strides support any layout; a row of the result is accumulated in its wide type
//   f16, bf16 if unsupported       widened to f32 and multiplied as such; the result is rounded once
//   letters in another order       permuted into the order of a matrix product, and the result permuted back
//
// Widened or permuted operands are in planned scratch memory.
#include <array>
#include <functional>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/moves.h"
#include "graph/product_view.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void multiply_row(const ProductView& v, const T* a, const T* b, T* y, Wide<T>* sums) {
  std::fill(sums, sums + v.columns, Wide<T>{0});
  for (std::int64_t k = 0; k < v.summed; ++k) {
    const Wide<T> factor = load(a[k * v.a.column]);
    const T* from = b + k * v.b.row;
    if (v.b.column == 1) {
#pragma omp simd
      for (std::int64_t j = 0; j < v.columns; ++j) {
        sums[j] += factor * load(from[j]);
      }
    } else {
      for (std::int64_t j = 0; j < v.columns; ++j) {
        sums[j] += factor * load(from[j * v.b.column]);
      }
    }
  }
  for (std::int64_t j = 0; j < v.columns; ++j) {
    store(y[j * v.y.column], sums[j]);
  }
}

std::unique_ptr<PreparedKernel> strided(const KernelRequest& request, const ProductView& v) {
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [v](const KernelMemory& memory) {
          const std::int64_t cost = std::max<std::int64_t>(v.summed * v.columns, 1);
          parallel(v.batch * v.rows, 1 + kSerial / cost, [&](std::int64_t begin, std::int64_t end) {
            auto* sums =
                reinterpret_cast<Wide<T>*>(memory.workspace) + omp_get_thread_num() * v.columns;
            for (std::int64_t i = begin; i < end; ++i) {
              const std::int64_t batch = i / v.rows;
              const std::int64_t row = i % v.rows;
              multiply_row(v, input<T>(memory, 0) + batch * v.a.batch + row * v.a.row,
                           input<T>(memory, 1) + batch * v.b.batch,
                           output<T>(memory, 0) + batch * v.y.batch + row * v.y.row, sums);
            }
          });
        },
        Bytes{omp_get_max_threads() * v.columns * static_cast<std::int64_t>(sizeof(Wide<T>))});
  });
}

/// An operand copied into scratch memory, or out of it. Without a pass it stays in place.
struct Detour {
  std::function<void(const std::byte* from, std::byte* to)> pass{};
  std::int64_t bytes = 0;  ///< in scratch memory
};

/// a, b, and the result.
using Detours = std::array<Detour, 3>;

constexpr std::int64_t kAlignment = 64;

std::int64_t room_of(const Detour& detour) {
  return detour.pass ? (detour.bytes + kAlignment - 1) / kAlignment * kAlignment : 0;
}

class DetourKernel : public Kernel {
 public:
  /// `scratch`: where each operand is that takes a detour.
  DetourKernel(const Detours& detours, KernelMemory memory,
               const std::array<std::byte*, 3>& scratch, std::unique_ptr<Kernel> product)
      : detours_(detours),
        memory_(std::move(memory)),
        scratch_(scratch),
        product_(std::move(product)) {}
  void enqueue(Stream& stream) override {
    for (std::size_t k = 0; k < 2; ++k) {
      if (detours_[k].pass) {
        detours_[k].pass(memory_.inputs[k], scratch_[k]);
      }
    }
    product_->enqueue(stream);
    if (detours_[2].pass) {
      detours_[2].pass(scratch_[2], memory_.outputs[0]);
    }
  }

 private:
  Detours detours_;
  KernelMemory memory_;
  std::array<std::byte*, 3> scratch_;
  std::unique_ptr<Kernel> product_;
};

/// A product of converted operands.
class PreparedDetour : public PreparedKernel {
 public:
  PreparedDetour(Detours detours, std::unique_ptr<PreparedKernel> product)
      : detours_(std::move(detours)), product_(std::move(product)) {}
  [[nodiscard]] Bytes workspace() const override {
    return {room_of(detours_[0]) + room_of(detours_[1]) + room_of(detours_[2]) +
            product_->workspace().count};
  }
  [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& memory) override {
    std::array<std::byte*, 3> scratch{};
    std::byte* free = memory.workspace;
    for (std::size_t k = 0; k < detours_.size(); ++k) {
      scratch[k] = free;
      free += room_of(detours_[k]);
    }
    KernelMemory inner{.inputs = memory.inputs, .outputs = memory.outputs, .workspace = free};
    for (std::size_t k = 0; k < 2; ++k) {
      if (detours_[k].pass) {
        inner.inputs[k] = scratch[k];
      }
    }
    if (detours_[2].pass) {
      inner.outputs[0] = scratch[2];
    }
    return std::make_unique<DetourKernel>(detours_, memory, scratch, product_->bind(inner));
  }

 private:
  Detours detours_;
  std::unique_ptr<PreparedKernel> product_;
};

template <class To, class From>
Detour converting(std::int64_t count) {
  const auto pass = [count](const std::byte* from_bytes, std::byte* to_bytes) {
    const From* from = reinterpret_cast<const From*>(from_bytes);
    To* to = reinterpret_cast<To*>(to_bytes);
    parallel(count, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        store(to[i], load(from[i]));
      }
    });
  };
  return {pass, count * static_cast<std::int64_t>(sizeof(float))};
}

std::unique_ptr<PreparedKernel> product(const KernelRequest& request);

/// T has 16 bits; the product is computed in f32.
template <class T>
std::unique_ptr<PreparedKernel> widened(const KernelRequest& request) {
  KernelRequest wide = request;
  for (std::vector<TensorType>* types : {&wide.inputs, &wide.outputs}) {
    for (TensorType& type : *types) {
      type.dtype = DType::F32;
    }
  }
  return std::make_unique<PreparedDetour>(
      Detours{converting<float, T>(request.inputs[0].shape.element_count()),
              converting<float, T>(request.inputs[1].shape.element_count()),
              converting<T, float>(request.outputs[0].shape.element_count())},
      product(wide));
}

/// The sizes of dimensions named by `from`, in the order of `to`.
Shape reordered(const Shape& shape, const std::string& from, const std::string& to) {
  std::vector<std::int64_t> dims;
  for (const char letter : to) {
    dims.push_back(shape.dim(static_cast<int>(from.find(letter))));
  }
  return Shape(std::move(dims));
}

/// A tensor with dimensions in the order of `from` to the order of `to`; nothing if there are too many.
std::optional<Detour> moving(const TensorType& type, const std::string& from,
                             const std::string& to) {
  if (from == to) {
    return Detour{};
  }
  const std::vector<std::int64_t> from_strides = type.shape.strides();
  const Shape target = reordered(type.shape, from, to);
  const std::vector<std::int64_t> to_strides = target.strides();
  std::vector<MoveLoop> loops;
  for (std::size_t d = 0; d < to.size(); ++d) {
    loops.push_back(
        {target.dim(static_cast<int>(d)), from_strides[from.find(to[d])], to_strides[d]});
  }
  const std::optional<Move> move = Move::make(loops, size_of(type.dtype).count);
  if (!move) {
    return std::nullopt;
  }
  return Detour{[made = *move](const std::byte* a, std::byte* b) { made.run(a, b); },
                size_of(type).count};
}

std::unique_ptr<PreparedKernel> arranged(const KernelRequest& request) {
  const EinsumLetters l = parse_equation(signature_of(request));
  const auto [batch, rows, columns, summed] = letters_by_kind(l);
  const std::string a = batch + rows + summed;
  const std::string b = batch + summed + columns;
  const std::string y = batch + rows + columns;
  KernelRequest inner = request;
  inner.attributes["equation"] = a + "," + b + "->" + y;
  inner.inputs[0].shape = reordered(request.inputs[0].shape, l.a, a);
  inner.inputs[1].shape = reordered(request.inputs[1].shape, l.b, b);
  inner.outputs[0].shape = reordered(request.outputs[0].shape, l.result, y);
  const std::optional<Detour> of_a = moving(request.inputs[0], l.a, a);
  const std::optional<Detour> of_b = moving(request.inputs[1], l.b, b);
  const std::optional<Detour> of_y = moving(inner.outputs[0], y, l.result);
  if (!of_a || !of_b || !of_y) {
    return nullptr;
  }
  return std::make_unique<PreparedDetour>(Detours{*of_a, *of_b, *of_y}, product(inner));
}

std::unique_ptr<PreparedKernel> einsum(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::F16) {
    return widened<Float16>(request);
  }
  const std::optional<ProductView> view = product_view(signature_of(request));
  if (!view) {
    return arranged(request);
  }
  return request.inputs[0].dtype == DType::BF16 ? widened<BFloat16>(request)
                                                : strided(request, *view);
}

/// By the library, if possible.
std::unique_ptr<PreparedKernel> product(const KernelRequest& request) {
  const std::span<const KernelRow> library = library_kernels();
  const auto row = std::ranges::find(library, request.op->name, &KernelRow::op);
  std::unique_ptr<PreparedKernel> prepared = row == library.end() ? nullptr : row->prepare(request);
  return prepared ? std::move(prepared) : einsum(request);
}

}  // namespace

std::vector<KernelRow> product_kernels() {
  return {{"einsum", einsum}};
}

}  // namespace trireme::cpu::TRIREME_ISA
