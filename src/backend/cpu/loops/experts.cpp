// Dispatches tokens to experts and combines their results; see graph/ops/experts.cpp.
//
// A slot is normally assigned once. So the first choice with a slot is its owner, whose row is written rather than
// added; the slots are then independent of one another. Further choices, if any, are added afterwards in order.
#include <cstring>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// Slots [N,K] of one group, and how many chose each expert.
template <class I>
void give_slots(const I* indices, std::int64_t choices, std::int64_t all_choices,
                std::int64_t capacity, std::int32_t* slots, std::int32_t* load) {
  for (std::int64_t k = 0; k < choices; ++k) {
    for (std::int64_t i = k; i < all_choices; i += choices) {
      const auto expert = static_cast<std::int64_t>(indices[i]);
      const std::int64_t position = load[expert]++;
      slots[i] = position < capacity ? static_cast<std::int32_t>(expert * capacity + position) : -1;
    }
  }
}

std::unique_ptr<PreparedKernel> expert_slots(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::int64_t groups = s.shape(0).dim(0);
  const std::int64_t choices = s.shape(0).dim(2);
  const std::int64_t of_group = s.shape(0).dim(1) * choices;
  const std::int64_t experts = s.integer("experts");
  const std::int64_t capacity = s.integer("capacity");
  return with_ids(request.inputs[0].dtype, [&]<class I>(I) {
    return kernel([=](const KernelMemory& memory) {
      const I* indices = input<I>(memory, 0);
      require_ids("expert_slots", indices, groups * of_group, 0, experts);
      auto* slots = output<std::int32_t>(memory, 0);
      auto* load = output<std::int32_t>(memory, 1);
      std::fill(load, load + groups * experts, 0);
      const std::int64_t grain = 1 + kSerial / std::max<std::int64_t>(of_group, 1);
      parallel(groups, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t g = begin; g < end; ++g) {
          give_slots(indices + g * of_group, choices, of_group, capacity, slots + g * of_group,
                     load + g * experts);
        }
      });
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
          std::transform(counts, counts + experts, output<float>(memory, 0),
                         [](std::int64_t count) { return static_cast<float>(count); });
        },
        Bytes{experts * static_cast<std::int64_t>(sizeof(std::int64_t))});
  });
}

/// x[g,n,h], slots[g,n,k], y[e,g,c,h]
struct Sizes {
  std::int64_t groups = 0;
  std::int64_t tokens = 0;   ///< of a group
  std::int64_t choices = 0;  ///< of each token
  std::int64_t experts = 0;
  std::int64_t capacity = 0;
  std::int64_t width = 0;

  Sizes(const Shape& slots, const Shape& y)
      : groups(slots.dim(0)),
        tokens(slots.dim(1)),
        choices(slots.dim(2)),
        experts(y.dim(0)),
        capacity(y.dim(2)),
        width(y.dim(3)) {}

  [[nodiscard]] std::int64_t choices_of_group() const { return tokens * choices; }
  [[nodiscard]] std::int64_t all_choices() const { return groups * tokens * choices; }
  [[nodiscard]] std::int64_t slots() const { return experts * capacity; }  ///< of a group
  [[nodiscard]] std::int64_t rows() const { return groups * slots(); }     ///< of y
  /// Row of y, for a slot that is not -1.
  [[nodiscard]] std::int64_t row_of(std::int64_t group, std::int64_t slot) const {
    return (slot / capacity * groups + group) * capacity + slot % capacity;
  }
  [[nodiscard]] std::int64_t grain() const {
    return 1 + kSerial / std::max<std::int64_t>(width, 1);
  }
  /// For loops over groups that do little per choice.
  [[nodiscard]] std::int64_t group_grain() const {
    return 1 + kSerial / std::max<std::int64_t>(choices_of_group(), 1);
  }
  [[nodiscard]] Bytes owners() const {
    return Bytes{rows() * static_cast<std::int64_t>(sizeof(std::int32_t))};
  }
};

/// f(choice, row of y) for the choices of a group that were not dropped, in order.
template <class I, class F>
void for_kept(const Sizes& z, const I* slots, std::int64_t group, F f) {
  const std::int64_t first = group * z.choices_of_group();
  for (std::int64_t choice = first; choice < first + z.choices_of_group(); ++choice) {
    if (slots[choice] >= 0) {
      f(choice, z.row_of(group, static_cast<std::int64_t>(slots[choice])));
    }
  }
}

/// By row of y, the first choice that has it, or -1.
template <class I>
void find_owners(const Sizes& z, const I* slots, std::int32_t* owners) {
  parallel(z.groups, z.group_grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      for (std::int64_t e = 0; e < z.experts; ++e) {
        std::fill_n(owners + (e * z.groups + g) * z.capacity, z.capacity, -1);
      }
      for_kept(z, slots, g, [&](std::int64_t choice, std::int64_t row) {
        owners[row] = owners[row] < 0 ? static_cast<std::int32_t>(choice) : owners[row];
      });
    }
  });
}

/// Each row of y = weight(choice) x[token of the choice] for the choice that owns it, or zeros.
template <class T, class Weight>
void write_owned(const Sizes& z, const T* x, T* y, const std::int32_t* owners, Weight weight) {
  parallel(z.rows(), z.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* to = y + row * z.width;
      const std::int32_t owner = owners[row];
      if (owner < 0) {
        std::fill(to, to + z.width, T{});
        continue;
      }
      const T* from = x + owner / z.choices * z.width;
      const Wide<T> factor = weight(owner);
#pragma omp simd
      for (std::int64_t i = 0; i < z.width; ++i) {
        store(to[i], factor * load(from[i]));
      }
    }
  });
}

/// y[row] = the sum of weight(choice) x[token of the choice] over the choices that have the row.
template <class T, class I, class Weight>
void scatter_to_slots(const Sizes& z, const T* x, const I* slots, T* y, std::int32_t* owners,
                      Weight weight) {
  find_owners(z, slots, owners);
  write_owned(z, x, y, owners, weight);
  parallel(z.groups, z.group_grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      for_kept(z, slots, g, [&](std::int64_t choice, std::int64_t row) {
        if (owners[row] == choice) {
          return;
        }
        const T* from = x + choice / z.choices * z.width;
        for (std::int64_t i = 0; i < z.width; ++i) {
          T& to = y[row * z.width + i];
          store(to, load(to) + weight(choice) * load(from[i]));
        }
      });
    }
  });
}

std::unique_ptr<PreparedKernel> expert_dispatch(const KernelRequest& request) {
  const Sizes z(request.inputs[1].shape, request.outputs[0].shape);
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel(
          [=](const KernelMemory& memory) {
            require_ids("expert_dispatch", input<I>(memory, 1), z.all_choices(), -1, z.slots());
            scatter_to_slots(z, input<T>(memory, 0), input<I>(memory, 1), output<T>(memory, 0),
                             reinterpret_cast<std::int32_t*>(memory.workspace),
                             [](std::int64_t) { return Wide<T>{1}; });
          },
          z.owners());
    });
  });
}

/// One token: the sum of its experts' rows, in strips that stay in registers and the L1 cache.
template <class T, class I>
void combine_token(const Sizes& z, std::int64_t group, const T* y, const I* slots, const T* gates,
                   T* out) {
  using W = Wide<T>;
  constexpr std::int64_t kStrip = 256;
  W sums[kStrip];
  for (std::int64_t first = 0; first < z.width; first += kStrip) {
    const std::int64_t n = std::min(kStrip, z.width - first);
    std::fill(sums, sums + kStrip, W{0});
    for (std::int64_t k = 0; k < z.choices; ++k) {
      if (slots[k] >= 0) {
        const T* row = y + z.row_of(group, slots[k]) * z.width + first;
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
  const Sizes z(request.inputs[1].shape, request.inputs[0].shape);
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel([=](const KernelMemory& memory) {
        require_ids("expert_combine", input<I>(memory, 1), z.all_choices(), -1, z.slots());
        parallel(z.groups * z.tokens, z.grain(), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            combine_token(z, n / z.tokens, input<T>(memory, 0), input<I>(memory, 1) + n * z.choices,
                          input<T>(memory, 2) + n * z.choices, output<T>(memory, 0) + n * z.width);
          }
        });
      });
    });
  });
}

/// dgates[g,n,k] = dout[g,n] . y[row of the slot]
template <class T, class I>
void gate_gradients(const Sizes& z, const KernelMemory& memory) {
  const I* slots = input<I>(memory, 2);
  parallel(z.all_choices(), z.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t choice = begin; choice < end; ++choice) {
      Wide<T> sum = 0;
      if (slots[choice] >= 0) {
        const T* dout = input<T>(memory, 0) + choice / z.choices * z.width;
        const std::int64_t row = z.row_of(choice / z.choices_of_group(), slots[choice]);
        const T* y = input<T>(memory, 1) + row * z.width;
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
  const Sizes z(request.inputs[2].shape, request.inputs[1].shape);
  return with_ids(request.inputs[2].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel(
          [=](const KernelMemory& memory) {
            require_ids("expert_combine_backward", input<I>(memory, 2), z.all_choices(), -1,
                        z.slots());
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
