#include "trireme/estimate_report.h"

#include <algorithm>

namespace trireme {

double EstimateReport::hardware_flops() const {
  return graph ? graph->flops.hardware().products : tokens * training.hardware;
}

std::optional<double> EstimateReport::mfu(Seconds time) const {
  return peak ? std::optional(utilization(tokens * training.model, time, *peak)) : std::nullopt;
}

std::optional<double> EstimateReport::causal_mfu(Seconds time) const {
  return peak ? std::optional(utilization(tokens * training.causal, time, *peak)) : std::nullopt;
}

std::optional<double> EstimateReport::hfu(Seconds time) const {
  return peak ? std::optional(utilization(hardware_flops(), time, *peak)) : std::nullopt;
}

std::optional<double> EstimateReport::run_mfu() const {
  if (request.run_mfu || !request.step_time) {
    return request.run_mfu;
  }
  return mfu(*request.step_time);
}

EstimateReport make_estimate(const EstimateRequest& request) {
  const Architecture& a = request.architecture;
  const BatchShape& batch = request.step.batch;
  EstimateReport report{
      .request = request,
      .parameters = count_parameters(a),
      .forward = forward_flops(a, batch.length),
      .training = training_flops(a, batch.length, request.step.recompute),
      .tokens = static_cast<double>(batch.sequences) * static_cast<double>(batch.length),
      .peak = request.device.peak(request.peak_type),
      .roofline = roofline_of(request.device, request.peak_type)};
  if (!a.is_buildable()) {
    return report;
  }
  report.graph = estimate_graph(training_step(a, request.step));
  if (report.roofline) {
    StepOptions fused = request.step;
    fused.fused = true;
    report.best = least_time(report.graph->kinds, *report.roofline);
    report.best_fused = least_time(op_kinds(training_step(a, fused)), *report.roofline);
  }
  return report;
}

std::vector<TimedKind> timed_kinds(const GraphEstimate& graph, const Roofline& roofline) {
  std::vector<TimedKind> kinds;
  for (const OpKind& kind : graph.kinds) {
    kinds.push_back({&kind, roofline.time(kind.flops, kind.bytes)});
  }
  std::ranges::stable_sort(kinds,
                           [](const TimedKind& a, const TimedKind& b) { return a.time > b.time; });
  return kinds;
}

}  // namespace trireme
