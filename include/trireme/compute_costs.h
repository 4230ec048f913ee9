// ComputeCosts: the measured compute speed of the ranks of one host.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/units.h"

namespace trireme {

/// The time of a kernel, linear in its work:
///
///   call + flop * FLOPs + first * bytes of its first input + others * bytes of the others + results * bytes it writes
///
/// For a matrix product, 1 / flop is the rate that large products approach, `call` is the cost per call, and the rest
/// is the cost of its operands, which dominates if the product is small in one dimension and so memory-bound.
struct KernelCost {
  /// The op, and for a matrix product the layout of its operands: "softmax", "einsum nn", "einsum nt". "*" is any other
  /// op.
  std::string kernel{};
  std::string dtype{};
  Seconds call{};
  Seconds flop{};
  Seconds first{};
  Seconds others{};
  Seconds results{};
  int samples = 0;   ///< number of kernels in the fit
  double error = 0;  ///< median of |fitted - measured| / measured over the samples

  /// The coefficients of the sum above.
  [[nodiscard]] std::array<double, 5> terms() const;
  friend bool operator==(const KernelCost&, const KernelCost&) = default;
};

/// Kernel costs while `ranks` ranks compute at the same time, each on `threads` threads.
struct ComputeSetting {
  int ranks = 1;
  int threads = 1;
  std::vector<KernelCost> kernels{};
  friend bool operator==(const ComputeSetting&, const ComputeSetting&) = default;
};

/// Compute costs of the ranks of a host, measured by `trireme probe`. Used to predict training steps.
struct ComputeCosts {
  std::string source{};
  std::vector<ComputeSetting> settings{};

  /// The setting with this many ranks and threads; nullptr if it was not measured.
  [[nodiscard]] const ComputeSetting* find(int ranks, int threads) const;
  friend bool operator==(const ComputeCosts&, const ComputeCosts&) = default;
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ComputeCosts& costs);

}  // namespace trireme
