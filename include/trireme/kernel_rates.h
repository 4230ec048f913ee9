// KernelRates: how long kernels take on a device at the rates that training reaches, in closed form.
//
// Immutable; any thread.
#pragma once

#include <string_view>

#include "trireme/cluster.h"
#include "trireme/efficiency.h"

namespace trireme {

/// The kernels of a block's forward pass, whose launches are Efficiency::launch.
inline constexpr double kKernelsOfBlock = 15;

/// Times are in seconds.
class KernelRates {
 public:
  /// For products of this type. Throws Error(Usage) if the device has no peak for it or no memory bandwidth.
  KernelRates(const DeviceSpec& device, const Efficiency& efficiency, std::string_view dtype);

  /// FLOP/s of the device at its peak for the type.
  [[nodiscard]] double peak() const noexcept { return peak_; }

  /// A product of M x K by K x N; see Efficiency.
  [[nodiscard]] double matmul(double m, double n, double k) const;
  /// Reading and writing this many bytes of memory.
  [[nodiscard]] double moving(double bytes) const;
  /// Fused attention of this many FLOPs, without those that the mask makes unnecessary. At least 16 bits wide.
  [[nodiscard]] double fused_attention(double flops) const;
  /// The products of attention that is not fused.
  [[nodiscard]] double score_products(double flops) const;

 private:
  [[nodiscard]] double tile_overhead(double m, double n, double k) const;

  Efficiency eff_;
  double peak_ = 0;
  double peak16_ = 0;       ///< the same in 16 bits, or `peak_` if that is lower
  double matmul_rate_ = 0;  ///< what large matrix products reach
  double bandwidth_ = 0;
  double word_ = 2;  ///< bytes of an operand's element
};

}  // namespace trireme
