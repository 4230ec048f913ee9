// Tokens sent to experts and brought back; see graph/ops/experts.cpp.
//
// A slot is meant to be given once. So the first choice that has a slot is its owner, whose row is written rather
// than added; the slots are then independent of one another. Choices that come second, if there are any, are
// added afterwards in their order.
#include <cstring>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

std::unique_ptr<PreparedKernel> expert_slots(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::int64_t tokens = s.shape(0).dim(0);
  const std::int64_t choices = s.shape(0).dim(1);
  const std::int64_t experts = s.integer("experts");
  const std::int64_t capacity = s.integer("capacity");
  return with_ids(request.inputs[0].dtype, [&]<class I>(I) {
    return kernel([=](const KernelMemory& memory) {
      const I* indices = input<I>(memory, 0);
      require_ids("expert_slots", indices, tokens * choices, 0, experts);
      auto* slots = output<std::int32_t>(memory, 0);
      auto* load = output<std::int32_t>(memory, 1);
      std::fill(load, load + experts, 0);
      for (std::int64_t k = 0; k < choices; ++k) {
        for (std::int64_t i = k; i < tokens * choices; i += choices) {
          const auto expert = static_cast<std::int64_t>(indices[i]);
          const std::int64_t position = load[expert]++;
          slots[i] =
              position < capacity ? static_cast<std::int32_t>(expert * capacity + position) : -1;
        }
      }
    });
  });
}

std::unique_ptr<PreparedKernel> expert_load(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::int64_t choices = s.shape(0).element_count();
  const std::int64_t experts = s.integer("experts");
  return with_ids(request.inputs[0].dtype, [&]<class I>(I) {
    return kernel(
        [=](const KernelMemory& memory) {
          const I* indices = input<I>(memory, 0);
          require_ids("expert_load", indices, choices, 0, experts);
          auto* counts = reinterpret_cast<std::int64_t*>(memory.workspace);
          std::fill(counts, counts + experts, 0);
          for (std::int64_t i = 0; i < choices; ++i) {
            ++counts[indices[i]];
          }
          const auto all = static_cast<double>(std::max<std::int64_t>(choices, 1));
          for (std::int64_t e = 0; e < experts; ++e) {
            output<float>(memory, 0)[e] = static_cast<float>(static_cast<double>(counts[e]) / all);
          }
        },
        Bytes{experts * static_cast<std::int64_t>(sizeof(std::int64_t))});
  });
}

/// By slot, the first choice that has it, or -1.
template <class I>
void find_owners(const I* slots, std::int64_t choices, std::int32_t* owners, std::int64_t rows) {
  std::fill(owners, owners + rows, -1);
  for (std::int64_t i = 0; i < choices; ++i) {
    if (slots[i] >= 0 && owners[slots[i]] < 0) {
      owners[slots[i]] = static_cast<std::int32_t>(i);
    }
  }
}

struct Sizes {
  std::int64_t rows = 0;  ///< slots of all experts
  std::int64_t tokens = 0;
  std::int64_t choices = 0;  ///< of each token
  std::int64_t width = 0;

  [[nodiscard]] std::int64_t all_choices() const { return tokens * choices; }
  [[nodiscard]] std::int64_t grain() const {
    return 1 + kSerial / std::max<std::int64_t>(width, 1);
  }
  [[nodiscard]] Bytes owners() const {
    return Bytes{rows * static_cast<std::int64_t>(sizeof(std::int32_t))};
  }
};

/// y[slot] = the sum of weight(choice) x[token of the choice] over the choices that have the slot.
template <class T, class I, class Weight>
void scatter_to_slots(const Sizes& z, const T* x, const I* slots, T* y, std::int32_t* owners,
                      Weight weight) {
  find_owners(slots, z.all_choices(), owners, z.rows);
  parallel(z.rows, z.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* to = y + row * z.width;
      const std::int32_t owner = owners[row];
      const T* from = x + std::max(owner, 0) / z.choices * z.width;
      const Wide<T> factor = owner < 0 ? Wide<T>{0} : weight(owner);
      if (owner < 0) {
        std::fill(to, to + z.width, T{});
        continue;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < z.width; ++i) {
        store(to[i], factor * load(from[i]));
      }
    }
  });
  for (std::int64_t choice = 0; choice < z.all_choices(); ++choice) {
    if (slots[choice] >= 0 && owners[slots[choice]] != choice) {
      T* to = y + slots[choice] * z.width;
      const T* from = x + choice / z.choices * z.width;
      for (std::int64_t i = 0; i < z.width; ++i) {
        store(to[i], load(to[i]) + weight(choice) * load(from[i]));
      }
    }
  }
}

std::unique_ptr<PreparedKernel> expert_dispatch(const KernelRequest& request) {
  const Shape& slots = request.inputs[1].shape;
  const Shape& y = request.outputs[0].shape;
  const Sizes z{y.dim(0) * y.dim(1), slots.dim(0), slots.dim(1), y.dim(2)};
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel(
          [=](const KernelMemory& memory) {
            require_ids("expert_dispatch", input<I>(memory, 1), z.all_choices(), -1, z.rows);
            scatter_to_slots(z, input<T>(memory, 0), input<I>(memory, 1), output<T>(memory, 0),
                             reinterpret_cast<std::int32_t*>(memory.workspace),
                             [](std::int64_t) { return Wide<T>{1}; });
          },
          z.owners());
    });
  });
}

/// One token: the sum of its experts' rows, in strips that stay in registers and the first cache.
template <class T, class I>
void combine_token(const Sizes& z, const T* y, const I* slots, const T* gates, T* out) {
  using W = Wide<T>;
  constexpr std::int64_t kStrip = 256;
  W sums[kStrip];
  for (std::int64_t first = 0; first < z.width; first += kStrip) {
    const std::int64_t n = std::min(kStrip, z.width - first);
    std::fill(sums, sums + kStrip, W{0});
    for (std::int64_t k = 0; k < z.choices; ++k) {
      if (slots[k] >= 0) {
        const T* row = y + slots[k] * z.width + first;
        const W gate = load(gates[k]);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          sums[i] += gate * load(row[i]);
        }
      }
    }
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      store(out[first + i], sums[i]);
    }
  }
}

std::unique_ptr<PreparedKernel> expert_combine(const KernelRequest& request) {
  const Shape& y = request.inputs[0].shape;
  const Shape& slots = request.inputs[1].shape;
  const Sizes z{y.dim(0) * y.dim(1), slots.dim(0), slots.dim(1), y.dim(2)};
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel([=](const KernelMemory& memory) {
        require_ids("expert_combine", input<I>(memory, 1), z.all_choices(), -1, z.rows);
        parallel(z.tokens, z.grain(), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            combine_token(z, input<T>(memory, 0), input<I>(memory, 1) + n * z.choices,
                          input<T>(memory, 2) + n * z.choices, output<T>(memory, 0) + n * z.width);
          }
        });
      });
    });
  });
}

/// dgates[n,k] = dout[n] . y[slot]
template <class T, class I>
void gate_gradients(const Sizes& z, const KernelMemory& memory) {
  const I* slots = input<I>(memory, 2);
  parallel(z.all_choices(), z.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t choice = begin; choice < end; ++choice) {
      Wide<T> sum = 0;
      if (slots[choice] >= 0) {
        const T* dout = input<T>(memory, 0) + choice / z.choices * z.width;
        const T* y = input<T>(memory, 1) + slots[choice] * z.width;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < z.width; ++i) {
          sum += load(dout[i]) * load(y[i]);
        }
      }
      store(output<T>(memory, 1)[choice], sum);
    }
  });
}

/// Inputs dout, y, slots, gates.
std::unique_ptr<PreparedKernel> expert_combine_backward(const KernelRequest& request) {
  const Shape& y = request.inputs[1].shape;
  const Shape& slots = request.inputs[2].shape;
  const Sizes z{y.dim(0) * y.dim(1), slots.dim(0), slots.dim(1), y.dim(2)};
  return with_ids(request.inputs[2].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel(
          [=](const KernelMemory& memory) {
            require_ids("expert_combine_backward", input<I>(memory, 2), z.all_choices(), -1,
                        z.rows);
            const T* gates = input<T>(memory, 3);
            scatter_to_slots(z, input<T>(memory, 0), input<I>(memory, 2), output<T>(memory, 0),
                             reinterpret_cast<std::int32_t*>(memory.workspace),
                             [gates](std::int64_t choice) { return load(gates[choice]); });
            gate_gradients<T, I>(z, memory);
          },
          z.owners());
    });
  });
}

}  // namespace

std::vector<KernelRow> expert_kernels() {
  return {{"expert_combine", expert_combine},
          {"expert_combine_backward", expert_combine_backward},
          {"expert_dispatch", expert_dispatch},
          {"expert_load", expert_load},
          {"expert_slots", expert_slots}};
}

}  // namespace trireme::cpu::TRIREME_ISA
