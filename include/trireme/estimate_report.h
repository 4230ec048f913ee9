// All estimates of one model on one device, computed once and shown as text or JSON. Callable from
// any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/estimate.h"

namespace trireme {

/// The model, device and step to estimate.
struct EstimateRequest {
  Architecture architecture{};
  DeviceSpec device{};
  std::string peak_type{};  ///< one of the device's peaks: "bf16", "tf32", …
  StepOptions step{};       ///< per device
  std::string optimizer{};  ///< name
  int devices = 1;
  std::optional<Seconds> step_time{};
  std::optional<double> run_tokens{};  ///< of a whole training run
  std::optional<double> run_mfu{};     ///< the MFU assumed for it
};

struct EstimateReport {
  EstimateRequest request{};
  ParameterCount parameters{};
  TokenFlops forward{};      ///< of one token
  TrainingFlops training{};  ///< of one token
  double tokens = 0;         ///< of one step, on one device
  std::optional<FlopRate> peak{};
  std::optional<Roofline> roofline{};
  std::optional<GraphEstimate> graph{};  ///< if the architecture can be built
  std::optional<Seconds> best{};         ///< of a step, at the roofline
  std::optional<Seconds> best_fused{};   ///< the same with element-wise nodes fused

  /// FLOPs of a step on one device, as executed: counted on the graph if there is one, else by the
  /// formula.
  [[nodiscard]] double hardware_flops() const;
  /// For a step of this duration; nullopt if the peak is unknown.
  [[nodiscard]] std::optional<double> mfu(Seconds time) const;
  [[nodiscard]] std::optional<double> causal_mfu(Seconds time) const;
  [[nodiscard]] std::optional<double> hfu(Seconds time) const;
  /// The MFU assumed for the run: as requested, else that of the measured step.
  [[nodiscard]] std::optional<double> run_mfu() const;
};

[[nodiscard]] EstimateReport make_estimate(const EstimateRequest& request);

/// An op kind with its roofline time on the device.
struct TimedKind {
  const OpKind* kind = nullptr;
  Seconds time{};
};
/// The slowest first.
[[nodiscard]] std::vector<TimedKind> timed_kinds(const GraphEstimate& graph,
                                                 const Roofline& roofline);

}  // namespace trireme
