// Optimizers, one thread for each element. The state is in f32 (f64 for parameters in f64); see graph/ops/optimizers.cpp.
#include <array>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

/// The scalars that all elements share, read by each thread.
template <class W>
struct Rates {
  const W* rate;
  const W* scale;
  __device__ bool skips() const { return *scale == 0 || !isfinite(*scale); }
};

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

template <class W>
struct AdamwOptions {
  W beta1;
  W beta2;
  W epsilon;
  W decay;
  double rounds;
  double round;
};

template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const T* p, const G* g, const Wide<T>* m, const Wide<T>* v, T* new_p,
                 Wide<T>* new_m, Wide<T>* new_v, Rates<Wide<T>> rates, const std::int64_t* step,
                 AdamwOptions<Wide<T>> options, std::int64_t count) {
  using W = Wide<T>;
  __shared__ W corrections[2];
  if (threadIdx.x < 2) {
    const double t = (static_cast<double>(*step) - 1) * options.rounds + options.round + 1;
    const double beta = threadIdx.x == 0 ? options.beta1 : options.beta2;
    corrections[threadIdx.x] = static_cast<W>(1 / (1 - pow(beta, t)));
  }
  __syncthreads();
  const bool skips = rates.skips();
  const W rate = *rates.rate;
  const W scale = *rates.scale;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const W old = load(p[i]);
    const W gradient = scale * static_cast<W>(load(g[i]));
    const W mean = options.beta1 * m[i] + (1 - options.beta1) * gradient;
    const W square = options.beta2 * v[i] + (1 - options.beta2) * gradient * gradient;
    const W step_size = mean * corrections[0] / (sqrt(square * corrections[1]) + options.epsilon);
    new_p[i] = narrow<T>(skips ? old : old - rate * (step_size + options.decay * old));
    new_m[i] = skips ? m[i] : mean;
    new_v[i] = skips ? v[i] : square;
  }
}

/// Calls f(T, G) for the types of a parameter and its gradient; nothing if the scalars are not in the wide type.
template <class F>
std::optional<Launch> for_parameter(const KernelRequest& request, F f) {
  return for_float(request.inputs[0].dtype, [&]<class T>(T p) -> std::optional<Launch> {
    const DType wide = std::is_same_v<T, double> ? DType::F64 : DType::F32;
    if (request.inputs.back().dtype != wide) {
      return std::nullopt;
    }
    if (request.inputs[1].dtype == request.inputs[0].dtype) {
      return f(p, p);
    }
    if constexpr (std::is_same_v<T, float>) {
      return for_float(request.inputs[1].dtype,
                       [&]<class G>(G g) -> std::optional<Launch> { return f(p, g); });
    } else if constexpr (sizeof(T) == 2) {
      return request.inputs[1].dtype == DType::F32 ? f(p, float{}) : std::nullopt;
    }
    return std::nullopt;
  });
}

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

std::optional<Launch> prepare_adamw(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.element_count();
  const Signature s = signature_of(request);
  return for_parameter(request, [&]<class T, class G>(T, G) -> std::optional<Launch> {
    using W = Wide<T>;
    const AdamwOptions<W> options{
        static_cast<W>(s.number("beta1")),        static_cast<W>(s.number("beta2")),
        static_cast<W>(s.number("epsilon")),      static_cast<W>(s.number("decay")),
        static_cast<double>(s.integer("rounds")), static_cast<double>(s.integer("round"))};
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      if (count == 0) {
        return;
      }
      adamw_kernel<<<blocks_for(count, 4 * kThreads), kThreads, 0, stream>>>(
          input<T>(m, 0), input<G>(m, 1), input<W>(m, 2), input<W>(m, 3), output<T>(m, 0),
          output<W>(m, 1), output<W>(m, 2), Rates<W>{input<W>(m, 4), input<W>(m, 6)},
          input<std::int64_t>(m, 5), options, count);
      check(cudaGetLastError(), "launching adamw");
    }};
  });
}

}  // namespace

std::span<const KernelRow> optimizer_kernels() {
  static constexpr std::array kRows{
      KernelRow{"sgd", prepare_sgd}, KernelRow{"momentum", prepare_momentum},
      KernelRow{"adagrad", prepare_adagrad}, KernelRow{"adamw", prepare_adamw},
      KernelRow{"lion", prepare_lion}};
  return kRows;
}

}  // namespace trireme::cuda
