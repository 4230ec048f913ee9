// ComputeCosts: how fast the ranks of one host compute, as measured there.
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
/// For a matrix product, 1 / flop is the rate that large products approach, `call` what each call costs, and the rest
/// what its operands cost: they dominate where the product is small in one dimension, and so bound by memory.
struct KernelCost {
  /// The op, and for a matrix product the layout of its operands: "softmax", "einsum nn", "einsum nt". "*" is any op
  /// that has no row of its own.
  std::string kernel{};
  std::string dtype{};
  Seconds call{};
  Seconds flop{};
  Seconds first{};
  Seconds others{};
  Seconds results{};
  int samples = 0;   ///< kernels that the row was fitted to
  double error = 0;  ///< median of |fitted - measured| / measured over the samples

  /// By the terms of the sum above.
  [[nodiscard]] std::array<double, 5> terms() const;
  friend bool operator==(const KernelCost&, const KernelCost&) = default;
};

/// Kernels while `ranks` ranks compute at the same time, each on `threads` threads.
struct ComputeSetting {
  int ranks = 1;
  int threads = 1;
  std::vector<KernelCost> kernels{};
  friend bool operator==(const ComputeSetting&, const ComputeSetting&) = default;
};

/// What computing costs the ranks of a host, measured by `trireme probe`. Used to predict training steps.
struct ComputeCosts {
  std::string source{};
  std::vector<ComputeSetting> settings{};

  /// The setting with so many ranks and threads; nullptr if it was not measured.
  [[nodiscard]] const ComputeSetting* find(int ranks, int threads) const;
  friend bool operator==(const ComputeCosts&, const ComputeCosts&) = default;
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ComputeCosts& costs);

}  // namespace trireme
