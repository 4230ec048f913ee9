// Element-wise ops: kernels that interpret a program of steps, each thread on 16 bytes of every operand. The operands of a
// step are chosen by comparisons that are the same for all threads, so that all intermediate values stay in registers. Most
// programs are chains, whose steps use no results but that of the step before: these need fewer registers, and fewer
// comparisons.
#include <array>
#include <vector>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/gelu.cuh"
#include "graph/fused.h"
#include "graph/unary_functions.h"

namespace trireme::cuda {
namespace {

enum class Function : std::uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  Maximum,
  Minimum,
  Scale,
  Copy,
  Unary,          ///< + the number of a unary function
  Backward = 64,  ///< likewise
};

constexpr int kMaxInputs = 8;
constexpr int kMaxSlots = 16;  ///< inputs and steps
constexpr int kChainInputs = 4;

struct Step {
  std::uint8_t function = 0;
  std::uint8_t a = 0;  ///< slots
  std::uint8_t b = 0;
  float constant = 0;
};

/// Slots are the inputs, then the steps' results.
struct Program {
  int inputs = 0;
  int steps = 0;
  Step step[kMaxSlots];
};

struct Operands {
  const void* in[kMaxInputs];
  std::int64_t period[kMaxInputs];  ///< elements; a shorter operand repeats
  void* out;
};

constexpr std::uint8_t code(Function function) {
  return static_cast<std::uint8_t>(function);
}
constexpr std::uint8_t code(Function first, UnaryFunction unary) {
  return static_cast<std::uint8_t>(code(first) + static_cast<std::uint8_t>(unary));
}

template <class W>
__device__ W unary_value(UnaryFunction function, W x) {
  switch (function) {
    case UnaryFunction::Exp:
      return exp(x);
    case UnaryFunction::Gelu:
      return x * gelu_share(x);
    case UnaryFunction::Log:
      return log(x);
    case UnaryFunction::Relu:
      return x > 0 ? x : static_cast<W>(0);
    case UnaryFunction::Sigmoid:
      return sigmoid(x);
    case UnaryFunction::Silu:
      return x * sigmoid(x);
    case UnaryFunction::Softplus:
      return max(x, static_cast<W>(0)) + log1p(exp(-abs(x)));
    case UnaryFunction::Sqrt:
      return sqrt(x);
    case UnaryFunction::Square:
      return x * x;
    case UnaryFunction::Tanh:
      return tanh(x);
  }
  return x;
}

template <class W>
__device__ W unary_slope(UnaryFunction function, W x) {
  switch (function) {
    case UnaryFunction::Exp:
      return exp(x);
    case UnaryFunction::Gelu:
      return gelu_slope(x);
    case UnaryFunction::Log:
      return 1 / x;
    case UnaryFunction::Relu:
      return x > 0 ? 1 : 0;
    case UnaryFunction::Sigmoid: {
      const W y = sigmoid(x);
      return y * (1 - y);
    }
    case UnaryFunction::Silu:
      return silu_slope(x);
    case UnaryFunction::Softplus:
      return sigmoid(x);
    case UnaryFunction::Sqrt:
      return static_cast<W>(0.5) / sqrt(x);
    case UnaryFunction::Square:
      return 2 * x;
    case UnaryFunction::Tanh: {
      const W y = tanh(x);
      return 1 - y * y;
    }
  }
  return x;
}

/// Element i of a pack, without indexing registers dynamically: functions with long bodies are not unrolled.
template <int kCount, class W>
__device__ W lane(const W (&pack)[kCount], int i) {
  W value = pack[0];
#pragma unroll
  for (int k = 1; k < kCount; ++k) {
    value = k == i ? pack[k] : value;
  }
  return value;
}
template <int kCount, class W>
__device__ void set_lane(W (&pack)[kCount], int i, W value) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    pack[k] = k == i ? value : pack[k];
  }
}

/// f(i) for the elements of a pack.
template <int kCount, class F>
__device__ void each(F f) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    f(i);
  }
}

/// Functions with long bodies, not unrolled.
template <int kCount, class W>
__device__ void apply_rare(const Step& step, const W (&a)[kCount], const W (&b)[kCount],
                           W (&y)[kCount]) {
  const bool is_backward = step.function >= code(Function::Backward);
  const auto function = static_cast<UnaryFunction>(
      step.function - code(is_backward ? Function::Backward : Function::Unary));
#pragma unroll 1
  for (int i = 0; i < kCount; ++i) {
    const W x = lane(a, i);
    set_lane(y, i, is_backward ? unary_slope(function, x) * lane(b, i) : unary_value(function, x));
  }
}

template <int kCount, class W>
__device__ void apply(const Step& step, const W (&a)[kCount], const W (&b)[kCount],
                      W (&y)[kCount]) {
  switch (static_cast<Function>(step.function)) {
    case Function::Add:
      return each<kCount>([&](int i) { y[i] = a[i] + b[i]; });
    case Function::Subtract:
      return each<kCount>([&](int i) { y[i] = a[i] - b[i]; });
    case Function::Multiply:
      return each<kCount>([&](int i) { y[i] = a[i] * b[i]; });
    case Function::Divide:
      return each<kCount>([&](int i) { y[i] = a[i] / b[i]; });
    case Function::Maximum:
      return each<kCount>([&](int i) { y[i] = max(a[i], b[i]); });
    case Function::Minimum:
      return each<kCount>([&](int i) { y[i] = min(a[i], b[i]); });
    case Function::Scale:
      return each<kCount>([&](int i) { y[i] = static_cast<W>(step.constant) * a[i]; });
    case Function::Copy:
      return each<kCount>([&](int i) { y[i] = a[i]; });
    default:
      break;
  }
  if (step.function == code(Function::Unary, UnaryFunction::Gelu)) {
    return each<kCount>([&](int i) { y[i] = a[i] * gelu_share(a[i]); });
  }
  if (step.function == code(Function::Backward, UnaryFunction::Gelu)) {
    return each<kCount>([&](int i) { y[i] = gelu_slope(a[i]) * b[i]; });
  }
  if (step.function == code(Function::Unary, UnaryFunction::Silu)) {
    return each<kCount>([&](int i) { y[i] = a[i] * sigmoid(a[i]); });
  }
  if (step.function == code(Function::Backward, UnaryFunction::Silu)) {
    return each<kCount>([&](int i) { y[i] = silu_slope(a[i]) * b[i]; });
  }
  apply_rare(step, a, b, y);
}

/// Reads and writes slots without indexing registers dynamically.
template <int kSlots, int kCount, class W>
struct Slots {
  W values[kSlots][kCount];

  __device__ void get(int slot, W (&value)[kCount]) const {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        value[i] = s == slot ? values[s][i] : value[i];
      }
    }
  }
  __device__ void set(int slot, const W (&value)[kCount]) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[s][i] = s == slot ? value[i] : values[s][i];
      }
    }
  }
};

/// The first element of a pack in an operand, which repeats if it is shorter than the result.
template <int kCount>
__device__ std::int64_t place_of(std::int64_t pack, std::int64_t packs, std::int64_t period) {
  const std::int64_t at = pack * kCount;
  if (period == packs * kCount) {
    return at;
  }
  const bool is_short = packs * kCount <= INT32_MAX;
  return is_short ? static_cast<std::uint32_t>(at) % static_cast<std::uint32_t>(period)
                  : at % period;
}

template <class T, int kCount>
__device__ void read_pack(const void* operand, std::int64_t at, Wide<T> (&values)[kCount]) {
  const auto in = *reinterpret_cast<const Pack<T, kCount>*>(static_cast<const T*>(operand) + at);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = load(in.values[i]);
  }
}

template <class T, int kCount>
__device__ void write_pack(const Wide<T> (&values)[kCount], void* operand, std::int64_t at) {
  Pack<T, kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    out.values[i] = narrow<T>(values[i]);
  }
  *reinterpret_cast<Pack<T, kCount>*>(static_cast<T*>(operand) + at) = out;
}

/// A program of one step, with one or two inputs.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    single_kernel(std::int64_t packs, Step step, int inputs,
                  const __grid_constant__ Operands operands) {
  const std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= packs) {
    return;
  }
  Wide<T> a[kCount];
  Wide<T> b[kCount] = {};
  Wide<T> y[kCount];
  read_pack<T>(operands.in[0], place_of<kCount>(pack, packs, operands.period[0]), a);
  if (inputs > 1) {
    read_pack<T>(operands.in[1], place_of<kCount>(pack, packs, operands.period[1]), b);
  }
  apply(step, a, b, y);
  write_pack<T>(y, operands.out, pack * kCount);
}

/// A chain; packs stay as they are in memory until a step uses them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    chain_kernel(std::int64_t packs, const __grid_constant__ Program program,
                 const __grid_constant__ Operands operands) {
  constexpr int kCount = kPack<T>;
  const std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= packs) {
    return;
  }
  uint4 held[kChainInputs] = {};
#pragma unroll
  for (int k = 0; k < kChainInputs; ++k) {
    if (k < program.inputs) {
      held[k] = load_raw<kCount>(static_cast<const T*>(operands.in[k]) +
                                 place_of<kCount>(pack, packs, operands.period[k]));
    }
  }
  Wide<T> result[kCount] = {};
  const auto get = [&](int slot, Wide<T>(&values)[kCount]) {
    uint4 chosen = held[0];
#pragma unroll
    for (int k = 1; k < kChainInputs; ++k) {
      chosen = k == slot ? held[k] : chosen;
    }
    const WidePack<T> wide = unpacked<T>(chosen);
    each<kCount>([&](int i) { values[i] = slot < program.inputs ? wide.values[i] : result[i]; });
  };
#pragma unroll 1
  for (int k = 0; k < program.steps; ++k) {
    const Step step = program.step[k];
    Wide<T> a[kCount];
    Wide<T> b[kCount];
    get(step.a, a);
    get(step.b, b);
    apply(step, a, b, result);
  }
  write_pack<T>(result, operands.out, pack * kCount);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    program_kernel(std::int64_t packs, const __grid_constant__ Program program,
                   const __grid_constant__ Operands operands) {
  using W = Wide<T>;
  const std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= packs) {
    return;
  }
  Slots<kMaxSlots, kCount, W> slots{};
  W result[kCount] = {};
#pragma unroll 1
  for (int k = 0; k < program.inputs; ++k) {
    read_pack<T>(operands.in[k], place_of<kCount>(pack, packs, operands.period[k]), result);
    slots.set(k, result);
  }
#pragma unroll 1
  for (int k = 0; k < program.steps; ++k) {
    const Step step = program.step[k];
    W a[kCount] = {};
    W b[kCount] = {};
    slots.get(step.a, a);
    slots.get(step.b, b);
    apply(step, a, b, result);
    slots.set(program.inputs + k, result);
  }
  write_pack<T>(result, operands.out, pack * kCount);
}

/// Whether each step uses inputs and the result of the step before only.
bool is_chain(const Program& program) {
  bool chain = program.inputs <= kChainInputs;
  for (int k = 0; k < program.steps; ++k) {
    const int before = program.inputs + k - 1;
    for (const int slot : {program.step[k].a, program.step[k].b}) {
      chain = chain && (slot < program.inputs || slot == before);
    }
  }
  return chain;
}

template <class T, int kCount>
void enqueue_program(std::int64_t count, const Program& program, const Operands& operands,
                     cudaStream_t stream) {
  const std::int64_t packs = count / kCount;
  const auto blocks = static_cast<unsigned>((packs + kThreads - 1) / kThreads);
  if (program.steps == 1 && program.inputs <= 2) {
    single_kernel<T, kCount>
        <<<blocks, kThreads, 0, stream>>>(packs, program.step[0], program.inputs, operands);
  } else if (kCount > 1 && is_chain(program)) {
    chain_kernel<T><<<blocks, kThreads, 0, stream>>>(packs, program, operands);
  } else {
    program_kernel<T, kCount><<<blocks, kThreads, 0, stream>>>(packs, program, operands);
  }
  check(cudaGetLastError(), "launching an element-wise kernel");
}

/// Whether every operand can be read and written in packs.
template <class T>
bool fits_packs(std::int64_t count, int inputs, const Operands& operands) {
  bool fits = count % kPack<T> == 0 && is_aligned_to_pack(operands.out);
  for (int k = 0; k < inputs; ++k) {
    fits = fits && operands.period[k] % kPack<T> == 0 && is_aligned_to_pack(operands.in[k]);
  }
  return fits;
}

template <class T>
Launch launch_of(const KernelRequest& request, const Program& program) {
  const std::int64_t count = request.outputs[0].shape.element_count();
  std::vector<std::int64_t> periods;
  for (const TensorType& type : request.inputs) {
    periods.push_back(type.shape.element_count());
  }
  return {.enqueue = [=](const KernelMemory& memory, cudaStream_t stream) {
    if (count == 0) {
      return;
    }
    Operands operands{};
    for (int k = 0; k < program.inputs; ++k) {
      operands.in[k] = memory.inputs[k];
      operands.period[k] = periods[k];
    }
    operands.out = memory.outputs[0];
    if (fits_packs<T>(count, program.inputs, operands)) {
      enqueue_program<T, kPack<T>>(count, program, operands, stream);
    } else {
      enqueue_program<T, 1>(count, program, operands, stream);
    }
  }};
}

std::optional<std::uint8_t> function_of(std::string_view op) {
  constexpr std::array kBinary{
      std::pair{"add", Function::Add},           std::pair{"subtract", Function::Subtract},
      std::pair{"multiply", Function::Multiply}, std::pair{"divide", Function::Divide},
      std::pair{"maximum", Function::Maximum},   std::pair{"minimum", Function::Minimum},
      std::pair{"scale", Function::Scale},       std::pair{"copy", Function::Copy}};
  for (const auto& [name, function] : kBinary) {
    if (op == name) {
      return code(function);
    }
  }
  for (const UnaryRow& row : kUnaryFunctions) {
    if (op == row.op) {
      return code(Function::Unary, row.function);
    }
    if (op == row.backward) {
      return code(Function::Backward, row.function);
    }
  }
  return std::nullopt;
}

std::optional<Program> as_program(const FusedProgram& fused, std::size_t inputs) {
  Program program{.inputs = static_cast<int>(inputs), .steps = static_cast<int>(fused.size())};
  if (inputs > kMaxInputs || inputs + fused.size() > kMaxSlots) {
    return std::nullopt;
  }
  const auto slot = [&](const FusedOperand& operand) {
    const bool is_input = operand.kind == FusedOperand::Kind::Input;
    return static_cast<std::uint8_t>(operand.number + (is_input ? 0 : inputs));
  };
  for (std::size_t k = 0; k < fused.size(); ++k) {
    const std::optional<std::uint8_t> function = function_of(fused[k].op->name);
    if (!function) {
      return std::nullopt;
    }
    Step& step = program.step[k];
    step.function = *function;
    step.a = slot(fused[k].operands.front());
    step.b = slot(fused[k].operands.back());
    if (!fused[k].attributes.empty()) {
      step.constant = static_cast<float>(std::get<double>(fused[k].attributes.begin()->second));
    }
  }
  return program;
}

std::optional<Launch> prepare_program(const KernelRequest& request,
                                      const std::optional<Program>& program) {
  if (!program || request.inputs[0].shape != request.outputs[0].shape) {
    return std::nullopt;
  }
  return for_float(request.outputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return launch_of<T>(request, *program);
  });
}

std::optional<Launch> prepare_fused(const KernelRequest& request) {
  return prepare_program(request,
                         as_program(parse_program(signature_of(request)), request.inputs.size()));
}

/// Any other element-wise op: a program of one step.
std::optional<Launch> prepare_single(const KernelRequest& request) {
  FusedStep step{.op = request.op, .operands = {}, .attributes = request.attributes};
  for (std::size_t k = 0; k < request.inputs.size(); ++k) {
    step.operands.push_back({FusedOperand::Kind::Input, k});
  }
  return prepare_program(request, as_program({step}, request.inputs.size()));
}

std::vector<KernelRow> make_rows() {
  std::vector<KernelRow> rows{{"fused", prepare_fused}};
  for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "scale"}) {
    rows.push_back({op, prepare_single});
  }
  for (const UnaryRow& row : kUnaryFunctions) {
    rows.push_back({row.op, prepare_single});
    rows.push_back({row.backward, prepare_single});
  }
  return rows;
}

}  // namespace

std::span<const KernelRow> elementwise_kernels() {
  static const std::vector<KernelRow> rows = make_rows();
  return rows;
}

}  // namespace trireme::cuda
