// Kernel costs: fits the time of kernels to their work, and predicts it. Pure; any thread.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/compute_costs.h"
#include "trireme/op.h"
#include "trireme/units.h"

namespace trireme::predict {

/// The work of a kernel: the row of KernelCost that describes it, and the factors of its terms.
struct KernelWork {
  std::string kernel{};  ///< "softmax", "einsum nt"
  std::string dtype{};
  /// In order: 1, FLOPs, and the bytes of the first input, the other inputs and the results.
  std::array<double, 5> factors{};
};
[[nodiscard]] KernelWork kernel_work(const Signature& signature);

/// A kernel that ran.
struct KernelSample {
  KernelWork work{};
  Seconds time{};
};

/// A row for each kernel that occurs at least three times, and a row "*" for each type, fitted to everything but matrix
/// products. No cost is negative, and the predicted times sum to those of the samples. Samples of 0 s are ignored.
[[nodiscard]] std::vector<KernelCost> fit_kernel_costs(std::span<const KernelSample> samples);

/// Rows for work besides kernels, per call: starting a communication op in the background, and how much later than a
/// blocking call it completes, because threads have to wake up.
inline constexpr std::string_view kStart = "start";
inline constexpr std::string_view kBackground = "background";

/// How ranks share the cores of a host.
struct HostShare {
  int ranks = 1;
  int threads = 1;  ///< of each rank
};

/// Predicts kernels of ranks that all compute at the same time.
class KernelTimes {
 public:
  /// Interpolates between the measured settings. Throws Error(Usage) if `costs` has none.
  KernelTimes(const ComputeCosts& costs, int cores, const HostShare& share);

  /// A type without rows counts as f32. Throws Error(Usage) if f32 has no row for this kernel either.
  [[nodiscard]] Seconds time(const KernelWork& work) const;
  /// The cost per call of kStart or kBackground; 0 if not measured.
  [[nodiscard]] Seconds fixed(std::string_view row) const;
  /// How much faster kernels are while only one rank computes; at least 1.
  [[nodiscard]] double speedup_alone() const noexcept { return speedup_alone_; }

 private:
  struct Part {
    ComputeSetting setting{};
    double weight = 0;
  };
  std::vector<Part> parts_;  ///< of a weighted geometric mean
  double factor_ = 1;
  std::vector<KernelCost> fixed_;
  double speedup_alone_ = 1;
};

}  // namespace trireme::predict
