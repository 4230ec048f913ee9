#include "trireme/compute_times.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "graph/einsum.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

bool contains(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// `batch` products of M x K by K x N.
struct Product {
  double batch = 1;
  double m = 1;
  double n = 1;
  double k = 1;
};

Product product_of(const Signature& einsum) {
  const EinsumLetters letters = parse_equation(einsum);
  Product product;
  for (std::size_t i = 0; i < letters.a.size(); ++i) {
    const char letter = letters.a[i];
    const bool kept = contains(letters.result, letter);
    double& size = !kept ? product.k : contains(letters.b, letter) ? product.batch : product.m;
    size *= static_cast<double>(einsum.shape(0).dims()[i]);
  }
  for (std::size_t i = 0; i < letters.b.size(); ++i) {
    if (!contains(letters.a, letters.b[i])) {
      product.n *= static_cast<double>(einsum.shape(1).dims()[i]);
    }
  }
  return product;
}

/// A kernel by the rates that training reaches, without a floor.
double reached_time(const KernelRates& rates, const Signature& kernel, const Work& work) {
  if (kernel.op->name == "einsum") {
    const Product p = product_of(kernel);
    return p.batch == 1 ? rates.matmul(p.m, p.n, p.k)
                        : rates.score_products(work.products) + rates.moving(work.bytes);
  }
  if (kernel.op->name.starts_with("attention")) {
    return std::max(rates.fused_attention(work.products * (1 - work.causal)),
                    rates.moving(work.bytes));
  }
  const double side = std::cbrt(work.products / 2);  // a convolution, as a square product
  return std::max(side > 0 ? rates.matmul(side, side, side) : 0, rates.moving(work.bytes));
}

}  // namespace

ComputeTime compute_by(const ComputeRates& rates) {
  return [rates](const Signature& /*kernel*/, const Work& work) -> Seconds {
    const double flops = work.products + work.others;
    if (flops == 0 && work.bytes == 0) {
      return {0};
    }
    const double moving = rates.memory.count > 0 ? work.bytes / rates.memory.count : 0;
    return {rates.launch.count + std::max(flops / rates.flops.count, moving)};
  };
}

ComputeRates peak_rates(const DeviceSpec& device, std::string_view dtype) {
  const std::optional<FlopRate> peak = device.peak(dtype);
  if (!peak || !device.memory_bandwidth) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the {} of {} is unknown",
                    peak ? "memory bandwidth" : fmt::format("{} peak", dtype), device.name));
  }
  return {.flops = *peak, .memory = *device.memory_bandwidth, .launch = {}};
}

ComputeTime compute_by(const KernelRates& rates, Seconds floor) {
  return [rates, floor](const Signature& kernel, const Work& work) -> Seconds {
    return {std::max(floor.count, reached_time(rates, kernel, work))};
  };
}

}  // namespace trireme::simulate
