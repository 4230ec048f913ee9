// Mixtures of experts: top_k, slots, dispatch and combine. Every result has one writer, so sums have a fixed order.
#include <array>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

/// One thread for each row; k rounds over it. A NaN is never larger than another value; ties prefer the lower index.
template <class T>
struct TopK {
  const T* scores;
  T* values;
  std::int32_t* indices;
  std::int64_t length;
  std::int64_t k;
  __device__ void operator()(std::int64_t row) const {
    const T* in = scores + row * length;
    std::int32_t* chosen = indices + row * k;
    for (std::int64_t j = 0; j < k; ++j) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < length; ++e) {
        bool taken = false;
        for (std::int64_t before = 0; before < j; ++before) {
          taken = taken || chosen[before] == e;
        }
        if (!taken && (best < 0 || load(in[e]) > load(in[best]))) {
          best = e;
        }
      }
      chosen[j] = static_cast<std::int32_t>(best);
      values[row * k + j] = in[best];
    }
  }
};

std::optional<Launch> prepare_top_k(const KernelRequest& request) {
  const std::int64_t length = request.inputs[0].shape.dims().back();
  const std::int64_t k = signature_of(request).integer("k");
  const std::int64_t rows = length == 0 ? 0 : request.inputs[0].shape.element_count() / length;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each(rows,
                   TopK<T>{input<T>(m, 0), output<T>(m, 0), output<std::int32_t>(m, 1), length, k},
                   stream);
    }};
  });
}

template <class T, class I>
struct TopKBackward {
  const T* dvalues;
  const I* indices;
  T* dscores;
  std::int64_t size;
  std::int64_t k;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = i / size;
    Wide<T> sum = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      if (static_cast<std::int64_t>(indices[row * k + j]) == i % size) {
        sum += load(dvalues[row * k + j]);
      }
    }
    dscores[i] = narrow<T>(sum);
  }
};

std::optional<Launch> prepare_top_k_backward(const KernelRequest& request) {
  const std::int64_t size = signature_of(request).integer("size");
  const std::int64_t k = request.inputs[0].shape.dims().back();
  const std::int64_t count = request.outputs[0].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
        enqueue_each(count,
                     TopKBackward<T, I>{input<T>(m, 0), input<I>(m, 1), output<T>(m, 0), size, k},
                     stream);
      }};
    });
  });
}

/// Choices [G,N,K] of E experts, each with room for C tokens of a group.
struct Choices {
  std::int64_t groups = 0;
  std::int64_t tokens = 0;
  std::int64_t choices = 0;
  std::int64_t experts = 0;
  std::int64_t capacity = 0;
};

Choices choices_of(const Shape& shape, std::int64_t experts, std::int64_t capacity) {
  return {shape.dim(0), shape.dim(1), shape.dim(2), experts, capacity};
}

/// One thread for each group and expert: first choices before second ones, in the order of tokens.
template <class I, class S, class L>
struct AssignSlots {
  const I* indices;
  S* slots;
  L* load_of;
  Choices n;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t group = i / n.experts;
    const std::int64_t expert = i % n.experts;
    std::int64_t taken = 0;
    for (std::int64_t k = 0; k < n.choices; ++k) {
      for (std::int64_t token = 0; token < n.tokens; ++token) {
        const std::int64_t choice = (group * n.tokens + token) * n.choices + k;
        if (static_cast<std::int64_t>(indices[choice]) == expert) {
          slots[choice] = static_cast<S>(taken < n.capacity ? expert * n.capacity + taken : -1);
          ++taken;
        }
      }
    }
    load_of[i] = static_cast<L>(taken);
  }
};

/// Calls f with the types of two integer tensors.
template <class F>
std::optional<Launch> with_two_ids(DType a, DType b, F f) {
  return with_ids(a, [&]<class A>(A first) {
    return with_ids(b,
                    [&]<class B>(B second) -> std::optional<Launch> { return f(first, second); });
  });
}

std::optional<Launch> prepare_slots(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const Choices n =
      choices_of(request.inputs[0].shape, s.integer("experts"), s.integer("capacity"));
  return with_ids(request.inputs[0].dtype, [&]<class I>(I) {
    return with_two_ids(
        request.outputs[0].dtype, request.outputs[1].dtype,
        [&]<class S, class L>(S, L) -> std::optional<Launch> {
          return Launch{[n](const KernelMemory& m, cudaStream_t stream) {
            enqueue_each(n.groups * n.experts,
                         AssignSlots<I, S, L>{input<I>(m, 0), output<S>(m, 0), output<L>(m, 1), n},
                         stream);
          }};
        });
  });
}

template <class I, class C>
struct Load {
  const I* indices;
  C* counts;
  std::int64_t choices;
  __device__ void operator()(std::int64_t expert, int lane) const {
    std::int64_t count = 0;
    for (std::int64_t i = lane; i < choices; i += kWarp) {
      count += static_cast<std::int64_t>(indices[i]) == expert ? 1 : 0;
    }
    count = warp_sum(count);
    if (lane == 0) {
      if constexpr (std::is_integral_v<C>) {
        counts[expert] = static_cast<C>(count);
      } else {
        counts[expert] = narrow<C>(static_cast<Wide<C>>(count));
      }
    }
  }
};

std::optional<Launch> prepare_load(const KernelRequest& request) {
  const std::int64_t experts = signature_of(request).integer("experts");
  const std::int64_t choices = request.inputs[0].shape.element_count();
  return with_ids(request.inputs[0].dtype, [&]<class I>(I) {
    const auto make = [&]<class C>(C) -> std::optional<Launch> {
      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
        enqueue_each_row(experts, Load<I, C>{input<I>(m, 0), output<C>(m, 0), choices}, stream);
      }};
    };
    const std::optional<Launch> launch = for_float(request.outputs[0].dtype, make);
    return launch ? launch : with_ids(request.outputs[0].dtype, make);
  });
}

/// Where y[E,G,C,H] has the row of a slot of a group.
__device__ std::int64_t row_of_slot(const Choices& n, std::int64_t group, std::int64_t slot) {
  const std::int64_t expert = slot / n.capacity;
  return (expert * n.groups + group) * n.capacity + slot % n.capacity;
}

/// Calls f(choice, is_first) for the choices of a group that have the slot, in order. All lanes of a warp take part.
template <class I, class F>
__device__ void for_each_choice(const Choices& n, const I* slots, std::int64_t group,
                                std::int64_t slot, int lane, F f) {
  const std::int64_t begin = group * n.tokens * n.choices;
  const std::int64_t end = begin + n.tokens * n.choices;
  bool is_first = true;
  for (std::int64_t at = begin; at < end; at += kWarp) {
    const bool matches = at + lane < end && static_cast<std::int64_t>(slots[at + lane]) == slot;
    for (unsigned found = __ballot_sync(kAllLanes, matches); found != 0; found &= found - 1) {
      f(at + __ffs(static_cast<int>(found)) - 1, is_first);
      is_first = false;
    }
  }
}

/// A warp for each slot: the sum of the rows of its choices, times their gates if there are any. Usually a slot has one.
template <class T, class I>
struct SumOfChoices {
  const T* rows;  ///< of tokens
  const I* slots;
  const T* gates;  ///< or nullptr
  T* y;
  Choices n;
  std::int64_t width;
  __device__ void operator()(std::int64_t row, int lane) const {
    const std::int64_t group = row / n.capacity % n.groups;
    const std::int64_t slot = row / n.capacity / n.groups * n.capacity + row % n.capacity;
    for (std::int64_t i = lane; i < width; i += kWarp) {
      y[row * width + i] = narrow<T>(Wide<T>{0});
    }
    for_each_choice(n, slots, group, slot, lane, [&](std::int64_t choice, bool is_first) {
      const Wide<T> gate = gates == nullptr ? Wide<T>{1} : load(gates[choice]);
      const T* from = rows + choice / n.choices * width;
      for (std::int64_t i = lane; i < width; i += kWarp) {
        T& to = y[row * width + i];
        to = narrow<T>((is_first ? Wide<T>{0} : load(to)) + gate * load(from[i]));
      }
    });
  }
};

std::optional<Launch> prepare_dispatch(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const Choices n = choices_of(request.inputs[1].shape, y.dim(0), y.dim(2));
  const std::int64_t width = y.dim(3);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
        enqueue_each_row(
            n.experts * n.groups * n.capacity,
            SumOfChoices<T, I>{input<T>(m, 0), input<I>(m, 1), nullptr, output<T>(m, 0), n, width},
            stream);
      }};
    });
  });
}

template <class T, class I>
struct Combine {
  const T* y;
  const I* slots;
  const T* gates;
  T* out;
  Choices n;
  std::int64_t width;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t token = i / width;
    Wide<T> sum = 0;
    for (std::int64_t k = 0; k < n.choices; ++k) {
      const std::int64_t choice = token * n.choices + k;
      const auto slot = static_cast<std::int64_t>(slots[choice]);
      if (slot >= 0) {
        sum += load(gates[choice]) *
               load(y[row_of_slot(n, token / n.tokens, slot) * width + i % width]);
      }
    }
    out[i] = narrow<T>(sum);
  }
};

std::optional<Launch> prepare_combine(const KernelRequest& request) {
  const Shape& y = request.inputs[0].shape;
  const Choices n = choices_of(request.inputs[1].shape, y.dim(0), y.dim(2));
  const std::int64_t width = y.dim(3);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
        enqueue_each(n.groups * n.tokens * width,
                     Combine<T, I>{input<T>(m, 0), input<I>(m, 1), input<T>(m, 2), output<T>(m, 0),
                                   n, width},
                     stream);
      }};
    });
  });
}

/// A warp for each choice.
template <class T, class I>
struct GateGradients {
  const T* dout;
  const T* y;
  const I* slots;
  T* dgates;
  Choices n;
  std::int64_t width;
  __device__ void operator()(std::int64_t choice, int lane) const {
    const std::int64_t token = choice / n.choices;
    const auto slot = static_cast<std::int64_t>(slots[choice]);
    Wide<T> sum = 0;
    if (slot >= 0) {
      const std::int64_t row = row_of_slot(n, token / n.tokens, slot) * width;
      for (std::int64_t i = lane; i < width; i += kWarp) {
        sum += load(y[row + i]) * load(dout[token * width + i]);
      }
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      dgates[choice] = narrow<T>(sum);
    }
  }
};

std::optional<Launch> prepare_combine_backward(const KernelRequest& request) {
  const Shape& y = request.inputs[1].shape;
  const Choices n = choices_of(request.inputs[2].shape, y.dim(0), y.dim(2));
  const std::int64_t width = y.dim(3);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[2].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
        enqueue_each_row(n.groups * n.tokens * n.choices,
                         GateGradients<T, I>{input<T>(m, 0), input<T>(m, 1), input<I>(m, 2),
                                             output<T>(m, 1), n, width},
                         stream);
        enqueue_each_row(n.experts * n.groups * n.capacity,
                         SumOfChoices<T, I>{input<T>(m, 0), input<I>(m, 2), input<T>(m, 3),
                                            output<T>(m, 0), n, width},
                         stream);
      }};
    });
  });
}

}  // namespace

std::span<const KernelRow> expert_kernels() {
  static constexpr std::array kRows{KernelRow{"top_k", prepare_top_k},
                                    KernelRow{"top_k_backward", prepare_top_k_backward},
                                    KernelRow{"expert_slots", prepare_slots},
                                    KernelRow{"expert_load", prepare_load},
                                    KernelRow{"expert_dispatch", prepare_dispatch},
                                    KernelRow{"expert_combine", prepare_combine},
                                    KernelRow{"expert_combine_backward", prepare_combine_backward}};
  return kRows;
}

}  // namespace trireme::cuda
