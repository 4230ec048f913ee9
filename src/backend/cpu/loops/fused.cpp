// A program of element-wise steps, a block of elements at a time: intermediate results never leave the L1 cache. Each
// step is a vectorized loop over the block, which makes the cost of dispatch negligible.
#include "graph/fused.h"

#include <algorithm>
#include <optional>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/functions.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kBlock = 512;

/// to[i] = f(a[i], b[i]); steps with one operand or a number ignore the others.
template <class W>
using StepLoop = void (*)(const W* a, const W* b, W number, W* to, std::int64_t n);

template <class F, class W>
void value_loop(const W* a, const W*, W, W* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = F::value(a[i]);
  }
}
template <class F, class W>
void slope_loop(const W* x, const W* dy, W, W* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = F::slope(x[i]) * dy[i];
  }
}
template <class F, class W>
void pair_loop(const W* a, const W* b, W, W* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = F::value(a[i], b[i]);
  }
}
template <class W>
void scale_loop(const W* a, const W*, W number, W* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = number * a[i];
  }
}
template <class W>
void copy_loop(const W* a, const W*, W, W* to, std::int64_t n) {
  if (a != to) {
    std::copy(a, a + n, to);
  }
}

template <class W>
struct StepRow {
  std::string_view op;
  StepLoop<W> loop;
};

template <class W>
std::vector<StepRow<W>> step_rows() {
  std::vector<StepRow<W>> rows{
      {"add", pair_loop<Add, W>},         {"copy", copy_loop<W>},
      {"divide", pair_loop<Divide, W>},   {"maximum", pair_loop<Maximum, W>},
      {"minimum", pair_loop<Minimum, W>}, {"multiply", pair_loop<Multiply, W>},
      {"scale", scale_loop<W>},           {"subtract", pair_loop<Subtract, W>}};
  for_each_unary_function([&]<UnaryFunction kFunction>(const UnaryRow& row) {
    rows.push_back({row.op, value_loop<Function<kFunction>, W>});
    rows.push_back({row.backward, slope_loop<Function<kFunction>, W>});
  });
  return rows;
}

/// Where a step reads an operand or writes its result: an input, or a slot of a block's length.
struct Place {
  bool is_input = false;
  std::size_t number = 0;
};

template <class W>
struct Step {
  StepLoop<W> loop = nullptr;
  Place a{};
  Place b{};
  std::size_t to = 0;
  W number{};
};

template <class T>
struct Plan {
  using W = Wide<T>;
  std::vector<Step<W>> steps{};
  std::vector<std::int64_t> periods{};  ///< by input: its elements, which repeat
  std::size_t slots = 0;
  std::int64_t elements = 0;

  /// Slots of one thread: those of steps, then one for each input that must be widened or repeated.
  [[nodiscard]] std::int64_t room() const {
    return static_cast<std::int64_t>(slots + periods.size()) * kBlock;
  }
};

/// Slots for the results of steps; one is free again after its last reader.
class SlotChooser {
 public:
  explicit SlotChooser(const FusedProgram& program) : last_(program.size(), 0) {
    for (std::size_t k = 0; k < program.size(); ++k) {
      for (const FusedOperand& operand : program[k].operands) {
        if (operand.kind == FusedOperand::Kind::Step) {
          last_[operand.number] = k;
        }
      }
    }
  }
  /// For step k. It may be an operand's: elements are read before they are written.
  std::size_t choose(std::size_t k) {
    for (std::size_t slot = 0; slot < owner_.size(); ++slot) {
      if (last_[owner_[slot]] <= k) {
        owner_[slot] = k;
        return slot;
      }
    }
    owner_.push_back(k);
    return owner_.size() - 1;
  }
  [[nodiscard]] std::size_t count() const { return owner_.size(); }

 private:
  std::vector<std::size_t> last_;   ///< by step: the last reader of its result
  std::vector<std::size_t> owner_;  ///< by slot: the step whose result it has
};

/// Nothing if there is a step without a loop.
template <class T>
std::optional<Plan<T>> plan_of(const KernelRequest& request) {
  using W = Wide<T>;
  const FusedProgram program = parse_program(signature_of(request));
  const std::vector<StepRow<W>> rows = step_rows<W>();
  Plan<T> plan;
  SlotChooser chooser(program);
  std::vector<std::size_t> slot_of;
  for (const FusedStep& step : program) {
    const auto row = std::ranges::find(rows, step.op->name, &StepRow<W>::op);
    if (row == rows.end()) {
      return std::nullopt;
    }
    const auto place = [&](std::size_t k) {
      const FusedOperand& operand = step.operands[std::min(k, step.operands.size() - 1)];
      const bool is_input = operand.kind == FusedOperand::Kind::Input;
      return Place{is_input, is_input ? operand.number : slot_of[operand.number]};
    };
    const double number =
        step.attributes.empty() ? 0 : std::get<double>(step.attributes.begin()->second);
    plan.steps.push_back({row->loop, place(0), place(1), 0, static_cast<W>(number)});
    slot_of.push_back(chooser.choose(slot_of.size()));
    plan.steps.back().to = slot_of.back();
  }
  for (const TensorType& type : request.inputs) {
    plan.periods.push_back(type.shape.element_count());
  }
  plan.slots = chooser.count();
  plan.elements = request.outputs[0].shape.element_count();
  return plan;
}

/// The elements [begin, begin + n) of an input that repeats: where they are, or a copy of them in `slot`.
template <class T>
const Wide<T>* elements_of(const T* input, std::int64_t period, std::int64_t begin, std::int64_t n,
                           Wide<T>* slot) {
  const std::int64_t first = begin % period;
  if constexpr (std::is_same_v<T, Wide<T>>) {
    if (first + n <= period) {
      return input + first;
    }
  }
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t at = (first + done) % period;
    const std::int64_t run = std::min(n - done, period - at);
#pragma omp simd
    for (std::int64_t i = 0; i < run; ++i) {
      slot[done + i] = load(input[at + i]);
    }
    done += run;
  }
  return slot;
}

template <class T>
void run_block(const Plan<T>& plan, const KernelMemory& memory, std::int64_t begin, std::int64_t n,
               Wide<T>* room) {
  using W = Wide<T>;
  const auto at = [&](const Place& place) -> const W* {
    if (!place.is_input) {
      return room + static_cast<std::int64_t>(place.number) * kBlock;
    }
    return elements_of(input<T>(memory, place.number), plan.periods[place.number], begin, n,
                       room + static_cast<std::int64_t>(plan.slots + place.number) * kBlock);
  };
  T* y = output<T>(memory, 0) + begin;
  for (const Step<W>& step : plan.steps) {
    W* to = room + static_cast<std::int64_t>(step.to) * kBlock;
    if constexpr (std::is_same_v<T, W>) {
      to = &step == &plan.steps.back() ? y : to;
    }
    step.loop(at(step.a), at(step.b), step.number, to, n);
  }
  if constexpr (!std::is_same_v<T, W>) {
    const W* result = room + static_cast<std::int64_t>(plan.steps.back().to) * kBlock;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      store(y[i], result[i]);
    }
  }
}

std::unique_ptr<PreparedKernel> fused(const KernelRequest& request) {
  return for_float(request.outputs[0].dtype, [&]<class T>(T) -> std::unique_ptr<PreparedKernel> {
    std::optional<Plan<T>> plan = plan_of<T>(request);
    if (!plan) {
      return nullptr;
    }
    const Bytes room{omp_get_max_threads() * plan->room() *
                     static_cast<std::int64_t>(sizeof(Wide<T>))};
    return kernel(
        [made = std::move(*plan)](const KernelMemory& memory) {
          parallel(made.elements, kSerial, [&](std::int64_t begin, std::int64_t end) {
            auto* mine =
                reinterpret_cast<Wide<T>*>(memory.workspace) + omp_get_thread_num() * made.room();
            for (std::int64_t i = begin; i < end; i += kBlock) {
              run_block(made, memory, i, std::min(kBlock, end - i), mine);
            }
          });
        },
        room);
  });
}

}  // namespace

std::vector<KernelRow> fused_kernels() {
  return {{"fused", fused}};
}

}  // namespace trireme::cpu::TRIREME_ISA
