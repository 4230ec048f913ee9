// Optimizers but AdamW, one thread for each element. The state is in f32 (f64 for parameters in f64); see graph/ops/optimizers.cpp.
#include <array>

#include "backend/cuda/parameter.cuh"

namespace trireme::cuda {
namespace {

template <class T, class G>
struct Sgd {
  using W = Wide<T>;
  const T* p;
  const G* g;
  T* new_p;
  Rates<W> rates;
  W decay;
  __device__ void operator()(std::int64_t i) const {
    const W old = load(p[i]);
    const W step = *rates.scale * static_cast<W>(load(g[i])) + decay * old;
    new_p[i] = narrow<T>(rates.skips() ? old : old - *rates.rate * step);
  }
};

template <class T, class G>
struct Momentum {
  using W = Wide<T>;
  const T* p;
  const G* g;
  const W* m;
  T* new_p;
  W* new_m;
  Rates<W> rates;
  W momentum;
  W decay;
  bool nesterov;
  __device__ void operator()(std::int64_t i) const {
    const W old = load(p[i]);
    const W gradient = *rates.scale * static_cast<W>(load(g[i])) + decay * old;
    const W sum = momentum * m[i] + gradient;
    const W step = nesterov ? gradient + momentum * sum : sum;
    const bool skips = rates.skips();
    new_p[i] = narrow<T>(skips ? old : old - *rates.rate * step);
    new_m[i] = skips ? m[i] : sum;
  }
};

template <class T, class G>
struct Adagrad {
  using W = Wide<T>;
  const T* p;
  const G* g;
  const W* s;
  T* new_p;
  W* new_s;
  Rates<W> rates;
  W epsilon;
  W decay;
  __device__ void operator()(std::int64_t i) const {
    const W old = load(p[i]);
    const W gradient = *rates.scale * static_cast<W>(load(g[i])) + decay * old;
    const W sum = s[i] + gradient * gradient;
    const bool skips = rates.skips();
    new_p[i] = narrow<T>(skips ? old : old - *rates.rate * gradient / (sqrt(sum) + epsilon));
    new_s[i] = skips ? s[i] : sum;
  }
};

template <class T, class G>
struct Lion {
  using W = Wide<T>;
  const T* p;
  const G* g;
  const W* m;
  T* new_p;
  W* new_m;
  Rates<W> rates;
  W beta1;
  W beta2;
  W decay;
  __device__ void operator()(std::int64_t i) const {
    const W old = load(p[i]);
    const W gradient = *rates.scale * static_cast<W>(load(g[i]));
    const W along = beta1 * m[i] + (1 - beta1) * gradient;
    const W sign = along > 0 ? W{1} : along < 0 ? W{-1} : W{0};
    const bool skips = rates.skips();
    new_p[i] = narrow<T>(skips ? old : old - *rates.rate * (sign + decay * old));
    new_m[i] = skips ? m[i] : beta2 * m[i] + (1 - beta2) * gradient;
  }
};

std::optional<Launch> prepare_sgd(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.element_count();
  const double decay = signature_of(request).number("decay");
  return for_parameter(request, [&]<class T, class G>(T, G) -> std::optional<Launch> {
    using W = Wide<T>;
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each(count,
                   Sgd<T, G>{input<T>(m, 0),
                             input<G>(m, 1),
                             output<T>(m, 0),
                             {input<W>(m, 2), input<W>(m, 3)},
                             static_cast<W>(decay)},
                   stream);
    }};
  });
}

std::optional<Launch> prepare_momentum(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.element_count();
  const Signature s = signature_of(request);
  const double decay = s.number("decay");
  const double momentum = s.number("momentum");
  const bool nesterov = s.flag("nesterov");
  return for_parameter(request, [&]<class T, class G>(T, G) -> std::optional<Launch> {
    using W = Wide<T>;
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each(count,
                   Momentum<T, G>{input<T>(m, 0),
                                  input<G>(m, 1),
                                  input<W>(m, 2),
                                  output<T>(m, 0),
                                  output<W>(m, 1),
                                  {input<W>(m, 3), input<W>(m, 4)},
                                  static_cast<W>(momentum),
                                  static_cast<W>(decay),
                                  nesterov},
                   stream);
    }};
  });
}

std::optional<Launch> prepare_adagrad(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.element_count();
  const Signature s = signature_of(request);
  const double decay = s.number("decay");
  const double epsilon = s.number("epsilon");
  return for_parameter(request, [&]<class T, class G>(T, G) -> std::optional<Launch> {
    using W = Wide<T>;
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each(count,
                   Adagrad<T, G>{input<T>(m, 0),
                                 input<G>(m, 1),
                                 input<W>(m, 2),
                                 output<T>(m, 0),
                                 output<W>(m, 1),
                                 {input<W>(m, 3), input<W>(m, 4)},
                                 static_cast<W>(epsilon),
                                 static_cast<W>(decay)},
                   stream);
    }};
  });
}

std::optional<Launch> prepare_lion(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.element_count();
  const Signature s = signature_of(request);
  const double beta1 = s.number("beta1");
  const double beta2 = s.number("beta2");
  const double decay = s.number("decay");
  return for_parameter(request, [&]<class T, class G>(T, G) -> std::optional<Launch> {
    using W = Wide<T>;
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each(count,
                   Lion<T, G>{input<T>(m, 0),
                              input<G>(m, 1),
                              input<W>(m, 2),
                              output<T>(m, 0),
                              output<W>(m, 1),
                              {input<W>(m, 3), input<W>(m, 4)},
                              static_cast<W>(beta1),
                              static_cast<W>(beta2),
                              static_cast<W>(decay)},
                   stream);
    }};
  });
}

}  // namespace

std::span<const KernelRow> optimizer_kernels() {
  static constexpr std::array kRows{
      KernelRow{"sgd", prepare_sgd}, KernelRow{"momentum", prepare_momentum},
      KernelRow{"adagrad", prepare_adagrad}, KernelRow{"lion", prepare_lion}};
  return kRows;
}

}  // namespace trireme::cuda
