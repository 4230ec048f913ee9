// adamw and adamw_rounded: many parameters in one launch. As many blocks as can be resident stride over chunks of them. A
// thread loads all of its elements of a chunk before it stores any. The state is in f32 (f64 for parameters in f64); see
// graph/ops/optimizers.cpp.
#include <array>

#include "backend/cuda/parameter.cuh"

namespace trireme::cuda {
namespace {

constexpr int kAtOnce = 4;   ///< elements that a thread loads by one instruction
constexpr int kRounds = 2;   ///< times that it does, for a chunk
constexpr int kItems = 192;  ///< parameters in a launch: they are its arguments
constexpr std::int64_t kChunk = std::int64_t{kThreads} * kAtOnce * kRounds;

/// What a node's attributes say; equal for all parameters but the decay.
struct AdamwOptions {
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double decay = 0;
  double rounds = 1;
  double round = 0;
  std::int64_t count = 0;
  DType rounded = DType::F32;
  bool rounds_result = false;
};

template <class T, class G>
struct Parameter {
  using W = Wide<T>;
  const T* p;
  const G* g;
  const W* m;
  const W* v;
  T* new_p;
  W* new_m;
  W* new_v;
  void* rounded;  ///< nullptr: none
  std::int64_t count;
  W decay;
  DType rounded_type;
};

template <class T, class G>
struct Parameters {
  Parameter<T, G> items[kItems];
  unsigned first_chunk[kItems + 1];  ///< by item, of all; then the number of all
  int count;
};

template <class W>
struct AdamwScalars {
  Rates<W> rates;
  const std::int64_t* step;
  W beta1;
  W beta2;
  W epsilon;
  double rounds;
  double round;
};

/// The update of one element, in registers.
template <class W>
struct AdamwUpdate {
  W beta1, beta2, epsilon, rate, scale, correction1, correction2;
  bool skips;
  __device__ void operator()(W& p, W gradient, W& m, W& v, W decay) const {
    if (skips) {
      return;
    }
    const W d = scale * gradient;
    m = beta1 * m + (1 - beta1) * d;
    v = beta2 * v + (1 - beta2) * d * d;
    const W size = m * correction1 / (sqrt(v * correction2) + epsilon);
    p = p - rate * (size + decay * p);
  }
};

template <class R, int kCount, class W>
__device__ void store(void* at, std::int64_t i, const W (&values)[kCount]) {
  Pack<R, kCount> out;
  for (int k = 0; k < kCount; ++k) {
    out.values[k] = narrow<R>(static_cast<Wide<R>>(values[k]));
  }
  *reinterpret_cast<Pack<R, kCount>*>(static_cast<R*>(at) + i) = out;
}

template <int kCount, class W>
__device__ void store_rounded(DType type, void* at, std::int64_t i, const W (&values)[kCount]) {
  switch (type) {
    case DType::BF16:
      store<__nv_bfloat16>(at, i, values);
      break;
    case DType::F16:
      store<__half>(at, i, values);
      break;
    case DType::F64:
      store<double>(at, i, values);
      break;
    default:
      store<float>(at, i, values);
  }
}

/// kCount elements, as they were.
template <class T, class G, int kCount>
struct Elements {
  using W = Wide<T>;
  Pack<T, kCount> p;
  Pack<G, kCount> g;
  Pack<W, kCount> m;
  Pack<W, kCount> v;
};

template <int kCount, class T, class G>
__device__ Elements<T, G, kCount> load_elements(const Parameter<T, G>& o, std::int64_t i) {
  using W = Wide<T>;
  return {*reinterpret_cast<const Pack<T, kCount>*>(o.p + i),
          *reinterpret_cast<const Pack<G, kCount>*>(o.g + i),
          *reinterpret_cast<const Pack<W, kCount>*>(o.m + i),
          *reinterpret_cast<const Pack<W, kCount>*>(o.v + i)};
}

template <int kCount, class T, class G>
__device__ void update(const Parameter<T, G>& o, const AdamwUpdate<Wide<T>>& step, std::int64_t i,
                       Elements<T, G, kCount> e) {
  using W = Wide<T>;
  W moved[kCount];
  for (int k = 0; k < kCount; ++k) {
    moved[k] = load(e.p.values[k]);
    step(moved[k], static_cast<W>(load(e.g.values[k])), e.m.values[k], e.v.values[k], o.decay);
  }
  store<T>(o.new_p, i, moved);
  *reinterpret_cast<Pack<W, kCount>*>(o.new_m + i) = e.m;
  *reinterpret_cast<Pack<W, kCount>*>(o.new_v + i) = e.v;
  if (o.rounded != nullptr) {
    store_rounded(o.rounded_type, o.rounded, i, moved);
  }
}

/// Results may replace operands: then they are at the same addresses.
template <class T, class G>
__device__ void update_chunk(const Parameter<T, G>& o, const AdamwUpdate<Wide<T>>& step,
                             std::int64_t begin) {
  constexpr std::int64_t kRound = std::int64_t{kThreads} * kAtOnce;
  const std::int64_t first = begin + threadIdx.x * kAtOnce;
  if (begin + kChunk <= o.count) {
    Elements<T, G, kAtOnce> held[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      held[round] = load_elements<kAtOnce>(o, first + round * kRound);
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      update<kAtOnce>(o, step, first + round * kRound, held[round]);
    }
    return;
  }
  for (std::int64_t i = begin + threadIdx.x; i < o.count; i += kThreads) {
    update<1>(o, step, i, load_elements<1>(o, i));
  }
}

/// The corrections of both moments for their start at zero, by the first threads.
template <class W>
__device__ AdamwUpdate<W> update_of(const AdamwScalars<W>& s) {
  __shared__ W corrections[2];
  if (threadIdx.x < 2) {
    const double t = (static_cast<double>(*s.step) - 1) * s.rounds + s.round + 1;
    const double beta = threadIdx.x == 0 ? s.beta1 : s.beta2;
    corrections[threadIdx.x] = static_cast<W>(1 / (1 - pow(beta, t)));
  }
  __syncthreads();
  return {s.beta1,        s.beta2,        s.epsilon,      *s.rates.rate,
          *s.rates.scale, corrections[0], corrections[1], s.rates.skips()};
}

template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const __grid_constant__ Parameters<T, G> parameters,
                 const __grid_constant__ AdamwScalars<Wide<T>> scalars) {
  const AdamwUpdate<Wide<T>> step = update_of(scalars);
  int which = 0;
  for (unsigned chunk = blockIdx.x; chunk < parameters.first_chunk[parameters.count];
       chunk += gridDim.x) {
    while (chunk >= parameters.first_chunk[which + 1]) {
      ++which;
    }
    update_chunk(parameters.items[which], step,
                 std::int64_t{chunk - parameters.first_chunk[which]} * kChunk);
  }
}

const AdamwOptions& options_of(const BatchItem& item) {
  return *static_cast<const AdamwOptions*>(item.prepared);
}

template <class T, class G>
Parameter<T, G> parameter_of(const BatchItem& item) {
  using W = Wide<T>;
  const KernelMemory& m = *item.memory;
  const AdamwOptions& o = options_of(item);
  return {input<T>(m, 0),  input<G>(m, 1),
          input<W>(m, 2),  input<W>(m, 3),
          output<T>(m, 0), output<W>(m, 1),
          output<W>(m, 2), o.rounds_result ? m.outputs[3] : nullptr,
          o.count,         static_cast<W>(o.decay),
          o.rounded};
}

/// Whether one launch can update both: all but their own memory, type and decay is the same.
bool are_alike(const BatchItem& a, const BatchItem& b) {
  const AdamwOptions& x = options_of(a);
  const AdamwOptions& y = options_of(b);
  const bool same_scalars = std::equal(a.memory->inputs.begin() + 4, a.memory->inputs.end(),
                                       b.memory->inputs.begin() + 4);
  return same_scalars && x.beta1 == y.beta1 && x.beta2 == y.beta2 && x.epsilon == y.epsilon &&
         x.rounds == y.rounds && x.round == y.round;
}

template <class T, class G>
void launch(std::span<const BatchItem> items, cudaStream_t stream) {
  using W = Wide<T>;
  Parameters<T, G> parameters{};
  std::int64_t chunks = 0;
  for (const BatchItem& item : items) {
    parameters.items[parameters.count++] = parameter_of<T, G>(item);
    chunks += (options_of(item).count + kChunk - 1) / kChunk;
    parameters.first_chunk[parameters.count] = static_cast<unsigned>(chunks);
  }
  const KernelMemory& m = *items.front().memory;
  const AdamwOptions& o = options_of(items.front());
  const AdamwScalars<W> scalars{{input<W>(m, 4), input<W>(m, 6)},
                                input<std::int64_t>(m, 5),
                                static_cast<W>(o.beta1),
                                static_cast<W>(o.beta2),
                                static_cast<W>(o.epsilon),
                                o.rounds,
                                o.round};
  if (chunks > 0) {
    static const std::int64_t resident = resident_blocks(&adamw_kernel<T, G>, kThreads);
    const auto blocks = static_cast<unsigned>(std::min(resident, chunks));
    adamw_kernel<T, G><<<blocks, kThreads, 0, stream>>>(parameters, scalars);
    check(cudaGetLastError(), "launching adamw");
  }
}

template <class T, class G>
void enqueue_batch(std::span<const BatchItem> items, cudaStream_t stream) {
  while (!items.empty()) {
    std::size_t count = 1;
    while (count < items.size() && count < kItems && are_alike(items[0], items[count])) {
      ++count;
    }
    launch<T, G>(items.first(count), stream);
    items = items.subspan(count);
  }
}

template <bool kRounded>
std::optional<Launch> prepare_adamw(const KernelRequest& request) {
  const Signature s = signature_of(request);
  auto options = std::make_shared<AdamwOptions>(
      AdamwOptions{.beta1 = s.number("beta1"),
                   .beta2 = s.number("beta2"),
                   .epsilon = s.number("epsilon"),
                   .decay = s.number("decay"),
                   .rounds = static_cast<double>(s.integer("rounds")),
                   .round = static_cast<double>(s.integer("round")),
                   .count = request.inputs[0].shape.element_count(),
                   .rounded = request.outputs.back().dtype,
                   .rounds_result = kRounded});
  return for_parameter(request, [&]<class T, class G>(T, G) -> std::optional<Launch> {
    return Launch{.enqueue =
                      [options](const KernelMemory& m, cudaStream_t stream) {
                        const BatchItem alone{&m, options.get()};
                        enqueue_batch<T, G>(std::span(&alone, 1), stream);
                      },
                  .enqueue_batch = enqueue_batch<T, G>,
                  .prepared = options};
  });
}

}  // namespace

std::span<const KernelRow> adamw_kernels() {
  static constexpr std::array kRows{KernelRow{"adamw", prepare_adamw<false>},
                                    KernelRow{"adamw_rounded", prepare_adamw<true>}};
  return kRows;
}

}  // namespace trireme::cuda
