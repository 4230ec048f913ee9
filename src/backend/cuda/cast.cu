// cast, fill, select, and wait, which does nothing.
#include <array>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

// cast

template <class From, class To>
struct Cast {
  const From* x;
  To* y;
  __device__ void operator()(std::int64_t i) const {
    if constexpr (std::is_integral_v<To>) {
      y[i] = static_cast<To>(rint(static_cast<double>(load(x[i]))));
    } else if constexpr (std::is_same_v<To, double>) {
      y[i] = static_cast<double>(load(x[i]));
    } else {
      y[i] = narrow<To>(static_cast<float>(load(x[i])));
    }
  }
};

std::optional<Launch> prepare_cast(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.element_count();
  return for_number(request.inputs[0].dtype, [&]<class From>(From) {
    return for_number(request.outputs[0].dtype, [&]<class To>(To) -> std::optional<Launch> {
      return Launch{[count](const KernelMemory& memory, cudaStream_t stream) {
        enqueue_each(count, Cast<From, To>{input<From>(memory, 0), output<To>(memory, 0)}, stream);
      }};
    });
  });
}

// fill

template <class T>
struct Fill {
  T* y;
  double value;
  __device__ void operator()(std::int64_t i) const {
    if constexpr (std::is_integral_v<T>) {
      y[i] = static_cast<T>(rint(value));
    } else {
      y[i] = narrow<T>(static_cast<Wide<T>>(value));
    }
  }
};

std::optional<Launch> prepare_fill(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.element_count();
  const double value = signature_of(request).number("value");
  return for_number(request.outputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[=](const KernelMemory& memory, cudaStream_t stream) {
      enqueue_each(count, Fill<T>{output<T>(memory, 0), value}, stream);
    }};
  });
}

// select

template <class T, class C>
struct Select {
  const C* condition;
  const T* a;
  const T* b;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = load(*condition) != 0 ? a[i] : b[i]; }
};

std::optional<Launch> prepare_select(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.element_count();
  return for_number(request.inputs[0].dtype, [&]<class C>(C) {
    return for_size(request.outputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
      return Launch{[count](const KernelMemory& memory, cudaStream_t stream) {
        enqueue_each(count,
                     Select<T, C>{input<C>(memory, 0), input<T>(memory, 1), input<T>(memory, 2),
                                  output<T>(memory, 0)},
                     stream);
      }};
    });
  });
}

/// For `wait`: the executor has waited for its inputs.
std::optional<Launch> prepare_nothing(const KernelRequest& /*request*/) {
  return Launch{[](const KernelMemory& /*memory*/, cudaStream_t /*stream*/) {}};
}

}  // namespace

std::span<const KernelRow> cast_kernels() {
  static constexpr std::array kRows{
      KernelRow{"cast", prepare_cast}, KernelRow{"fill", prepare_fill},
      KernelRow{"select", prepare_select}, KernelRow{"wait", prepare_nothing}};
  return kRows;
}

}  // namespace trireme::cuda
