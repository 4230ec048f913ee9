// Dropout and normal numbers from the counter-based generator of graph/random.h: every element computes its own.
#include <array>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/strides.h"
#include "graph/random.h"

namespace trireme::cuda {
namespace {

/// The number of an element of a shard in the whole tensor.
struct Numbering {
  Strides part{};  ///< steps are those of the whole tensor
  std::int64_t first = 0;
  __device__ std::uint64_t number(std::int64_t i) const {
    return static_cast<std::uint64_t>(part.dims == 0 ? i : first + part.offset(i));
  }
};

std::optional<Numbering> numbering_of(const Signature& s, const Shape& shape) {
  Numbering numbering;
  const std::vector<std::int64_t>& offset = s.integers("offset");
  const std::vector<std::int64_t>& whole = s.integers("whole");
  if (whole.size() > kMaxDims) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> steps = Shape(whole).strides();
  for (std::size_t d = 0; d < whole.size(); ++d) {
    numbering.part.push(shape.dim(static_cast<int>(d)), steps[d]);
    numbering.first += offset[d] * steps[d];
  }
  return numbering;
}

template <class T>
struct Dropout {
  const T* x;
  const std::int64_t* step;
  T* y;
  Numbering numbering;
  std::int64_t seed;
  std::uint64_t threshold;
  double kept;
  __device__ void operator()(std::int64_t i) const {
    const random::Stream stream{.seed = seed, .step = *step, .use = random::Use::Mask};
    const bool keeps = random::keeps(stream, numbering.number(i), threshold);
    y[i] = narrow<T>(keeps ? load(x[i]) / static_cast<Wide<T>>(kept) : Wide<T>{0});
  }
};

template <class T>
struct Normal {
  const std::int64_t* step;
  T* y;
  Numbering numbering;
  std::int64_t seed;
  __device__ void operator()(std::int64_t i) const {
    const random::Stream stream{.seed = seed, .step = *step, .use = random::Use::Normal};
    const random::PolarPoint point = random::polar_point(stream, numbering.number(i));
    double sine = 0;
    double cosine = 0;
    sincospi(2 * point.turn, &sine, &cosine);
    const double value = sqrt(-2 * log(point.uniform)) * (point.sine ? sine : cosine);
    y[i] = narrow<T>(static_cast<Wide<T>>(value));
  }
};

std::optional<Launch> prepare_dropout(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::optional<Numbering> numbering = numbering_of(s, request.outputs[0].shape);
  if (!numbering) {
    return std::nullopt;
  }
  const double rate = s.number("rate");
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[numbering = *numbering, rate, seed = s.integer("seed"),
                   count = request.outputs[0].shape.element_count()](const KernelMemory& m,
                                                                     cudaStream_t stream) {
      enqueue_each(count,
                   Dropout<T>{input<T>(m, 0), input<std::int64_t>(m, 1), output<T>(m, 0), numbering,
                              seed, random::drop_below(rate), 1 - rate},
                   stream);
    }};
  });
}

std::optional<Launch> prepare_normal(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::optional<Numbering> numbering = numbering_of(s, request.outputs[0].shape);
  if (!numbering) {
    return std::nullopt;
  }
  return for_float(request.outputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[numbering = *numbering, seed = s.integer("seed"),
                   count = request.outputs[0].shape.element_count()](const KernelMemory& m,
                                                                     cudaStream_t stream) {
      enqueue_each(count, Normal<T>{input<std::int64_t>(m, 0), output<T>(m, 0), numbering, seed},
                   stream);
    }};
  });
}

}  // namespace

std::span<const KernelRow> random_kernels() {
  static constexpr std::array kRows{KernelRow{"dropout", prepare_dropout},
                                    KernelRow{"dropout_backward", prepare_dropout},
                                    KernelRow{"random_normal", prepare_normal}};
  return kRows;
}

}  // namespace trireme::cuda
