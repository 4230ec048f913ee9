#include <utility>

#include "graph/einsum.h"
#include "trireme/kernel_costs.h"

namespace trireme::predict {
namespace {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// A matrix product as its kernel sees it: the last dimension of the result is one of the second operand.
struct Product {
  bool swapped = false;  ///< the operands
  /// "nn", "nt", …: whether the last dimension is the summed one in a, the result's in b.
  std::string layout{};
};

Product product_of(const Signature& signature) {
  EinsumLetters letters = parse_equation(signature);
  Product product;
  product.swapped = !letters.result.empty() && !has(letters.b, letters.result.back());
  if (product.swapped) {
    std::swap(letters.a, letters.b);
  }
  const bool batched = has(letters.a, letters.b.front()) && has(letters.result, letters.b.front());
  const bool a_transposed = has(letters.result, letters.a.back());
  const bool b_transposed = !has(letters.result, letters.b.back());
  product.layout = std::string(batched ? "batched " : "") + (a_transposed ? "t" : "n") +
                   (b_transposed ? "t" : "n");
  return product;
}

/// The type that the kernel computes in: of its first input that is not an integer.
DType computed_in(const Signature& signature, const std::vector<TensorType>& results) {
  for (const auto* types : {&signature.inputs, &results}) {
    for (const TensorType& type : *types) {
      if (is_float(type.dtype)) {
        return type.dtype;
      }
    }
  }
  return DType::F32;
}

double bytes_of(const TensorType& type) {
  return static_cast<double>(size_of(type).count);
}

}  // namespace

KernelWork kernel_work(const Signature& signature) {
  const std::vector<TensorType> results = signature.op->infer(signature);
  const Work work = signature.op->work(signature);
  KernelWork kernel{.kernel = std::string(signature.op->name),
                    .dtype = std::string(to_text(computed_in(signature, results))),
                    .factors = {1, work.products - work.causal + work.others, 0, 0, 0}};
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    kernel.factors[i == 0 ? 2 : 3] += bytes_of(signature.inputs[i]);
  }
  for (const TensorType& type : results) {
    kernel.factors[4] += bytes_of(type);
  }
  if (signature.op->name == "einsum") {
    const Product product = product_of(signature);
    kernel.kernel += " " + product.layout;
    if (product.swapped) {
      std::swap(kernel.factors[2], kernel.factors[3]);
    }
  }
  return kernel;
}

}  // namespace trireme::predict
