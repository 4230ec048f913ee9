// einsum for equations that are not a matrix product with constant strides: a thread for each result sums over the letters
// that the result lacks. Slow, but rarely needed; cuBLASLt computes the others.
#include <array>
#include <map>
#include <string>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/strides.h"
#include "graph/einsum.h"

namespace trireme::cuda {
namespace {

/// Steps in both operands, over the same letters.
struct Both {
  Strides a{};
  Strides b{};
};

template <class T>
struct Einsum {
  const T* a;
  const T* b;
  T* y;
  Both results;
  Both summed;
  std::int64_t length;
  __device__ void operator()(std::int64_t i) const {
    const T* first = a + results.a.offset(i);
    const T* second = b + results.b.offset(i);
    Wide<T> sum = 0;
    for (std::int64_t k = 0; k < length; ++k) {
      sum += load(first[summed.a.offset(k)]) * load(second[summed.b.offset(k)]);
    }
    y[i] = narrow<T>(sum);
  }
};

/// The sizes and steps of an operand's letters.
struct Letter {
  std::int64_t size = 1;
  std::int64_t step = 0;
};
std::map<char, Letter> letters_of(const std::string& letters, const Shape& shape) {
  std::map<char, Letter> found;
  const std::vector<std::int64_t> steps = shape.strides();
  for (std::size_t d = 0; d < letters.size(); ++d) {
    found[letters[d]] = {shape.dim(static_cast<int>(d)), steps[d]};
  }
  return found;
}

std::optional<Launch> prepare_strided(const KernelRequest& request) {
  const EinsumLetters letters = parse_equation(signature_of(request));
  std::map<char, Letter> a = letters_of(letters.a, request.inputs[0].shape);
  std::map<char, Letter> b = letters_of(letters.b, request.inputs[1].shape);
  if (letters.a.size() + letters.b.size() > kMaxDims) {
    return std::nullopt;
  }
  const auto add = [&](char letter, Both& to) {
    const std::int64_t size = std::max(a[letter].size, b[letter].size);
    to.a.push(size, a[letter].step);
    to.b.push(size, b[letter].step);
    return size;
  };
  Both results;
  Both summed;
  std::int64_t length = 1;
  for (const char letter : letters.result) {
    add(letter, results);
  }
  for (const char letter : letters.a) {
    if (letters.result.find(letter) == std::string::npos) {
      length *= add(letter, summed);
    }
  }
  const std::int64_t count = request.outputs[0].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each(
          count,
          Einsum<T>{input<T>(m, 0), input<T>(m, 1), output<T>(m, 0), results, summed, length},
          stream);
    }};
  });
}

}  // namespace

std::span<const KernelRow> strided_product_kernels() {
  static constexpr std::array kRows{KernelRow{"einsum", prepare_strided}};
  return kRows;
}

}  // namespace trireme::cuda
