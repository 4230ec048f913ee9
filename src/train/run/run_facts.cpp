#include "train/run/run_facts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/cores.h"
#include "tensor/half.h"
#include "train/run/memory_check.h"
#include "train/run/run_notes.h"
#include "train/run/run_setup.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/step_prediction.h"

namespace trireme::train {
namespace {

/// In FLOP/s; 0 if nothing is specified for the device and the type.
double specified_peak(const Device& device, const std::string& dtype) {
  const std::optional<DeviceSpec> spec =
      device.free_memory() ? find_device_preset(device.name()) : std::nullopt;
  const std::optional<FlopRate> peak = spec ? spec->peak(dtype) : std::nullopt;
  return peak ? peak->count : 0.0;
}

/// How many of a machine's ranks compute at the same time on separate hardware.
double concurrent_on_host(int ranks, const Device& device) {
  const double share = device.machine_share();
  return share > 0 ? std::clamp<double>(ranks, 1, std::max(1.0, 1 / share)) : ranks;
}

/// The same for all ranks, assuming that all machines are like this one.
double concurrent_ranks(const Ranks& ranks, const Device& device) {
  double running = 0;
  for (const int here : ranks.by_host()) {
    running += concurrent_on_host(here, device);
  }
  return running;
}

/// The rate of one rank while as many compute as the cores allow; the others wait, or all would appear slow.
double measure_peak(Ranks& ranks, Device& device, DType dtype) {
  const bool measures = ranks.rank_on_host() < concurrent_on_host(ranks.by_host().front(), device);
  const double rate = measures ? measure_peak_flops(device, dtype) : 0;
  (void)ranks.any(measures);  // a barrier
  return rate;
}

/// "4 ranks: data=2,tensor=2, ZeRO 1"; "" on one device.
std::string ranks_text(const Plan& plan, const std::string& sync) {
  const int count = plan.mesh.devices();
  if (count == 1) {
    return {};
  }
  std::string text = fmt::format("{} ranks: {}", count, to_text(plan.mesh));
  text += has_replicas(parse_sync(sync)) ? ", synchronized by " + sync : "";
  text += plan.zero > 0 ? fmt::format(", ZeRO {}", plan.zero) : "";
  text += plan.recompute.any() ? ", recompute " + to_text(plan.recompute) : "";
  text += plan.compression.any() ? ", gradients by " + to_text(plan.compression) : "";
  text += plan.microbatches > 1 ? fmt::format(", {} micro-batches", plan.microbatches) : "";
  text += plan.mesh.size("pipe") > 1 ? fmt::format(" by {}", plan.schedule) : "";
  const std::size_t assigned = plan.ops.size() + plan.values.size();
  text += assigned > 0 ? fmt::format(", {} assignment{}", assigned, assigned == 1 ? "" : "s") : "";
  return text;
}

/// "bf16 with f32 master weights"
std::string dtype_text(const TrainSettings& settings) {
  const bool has_master = is_half(parse_dtype(settings.dtype)) && settings.master == "f32";
  return settings.dtype + (has_master ? " with f32 master weights" : "");
}

/// A tenth of 0.003 reads 0.0003, not 0.00030000000000000003.
std::string rate_text(LearningRate rate) {
  rate.peak = std::stod(fmt::format("{:.6g}", rate.peak));
  rate.least = std::stod(fmt::format("{:.6g}", rate.least));
  return to_text(rate);
}

/// "averaged (mean) over all 2048 tokens of a step"
std::string gradients_text(const RunFacts& facts, int workers, const std::string& sync) {
  return workers == 1
             ? fmt::format("averaged (mean) over all {} {} of a step", facts.units_per_step,
                           facts.unit)
             : fmt::format(
                   "averaged (mean) over the {} {} of each worker's share; {} combines the workers",
                   facts.units_per_step / workers, facts.unit, sync);
}

std::optional<GradientTraffic> gradient_traffic(const RunParts& parts,
                                                const CompiledTraining& compiled) {
  if (!parts.plan.compression.any()) {
    return std::nullopt;
  }
  const CompressedBytes bytes =
      compressed_bytes(compiled, trainer_options(parts.settings, parts.model.config, parts.plan));
  return GradientTraffic{.sent = bytes.sent, .uncompressed = bytes.uncompressed};
}

/// Why the step of a run cannot be predicted; "" if it can.
std::string prediction_problem(const RunParts& parts, const Ranks& ranks, const Device& device) {
  if (!parts.host || !parts.host->compute) {
    return "run 'trireme probe' once to get a prediction";
  }
  if (device.machine_share() == 0 || ranks.by_host().size() > 1) {
    return "only steps on the cores of one host are predicted";
  }
  if (parts.host->cores != usable_cores()) {
    return fmt::format("the probe measured {} cores, this run has {}; run 'trireme probe' again",
                       parts.host->cores, usable_cores());
  }
  return {};
}

void predict_step(const RunParts& parts, const Ranks& ranks, const CompiledTraining& compiled,
                  const Device& device, RunFacts& facts) {
  facts.not_predicted = prediction_problem(parts, ranks, device);
  if (!ranks.leads() || !facts.not_predicted.empty() ||
      std::cmp_not_equal(compiled.step.programs().size(), ranks.count())) {
    return;
  }
  const auto threads = static_cast<int>(std::lround(device.machine_share() * usable_cores()));
  simulate::SimulationReport report;
  try {
    report = predict::predict_step(compiled.step.rank_programs(), parts.plan.mesh, *parts.host,
                                   {.threads = threads});
  } catch (const Error& error) {  // the run itself does not need the prediction
    facts.not_predicted = error.what();
    return;
  }
  facts.predicted = StepPrediction{.step = report.step,
                                   .compute = report.share(&simulate::RankReport::compute),
                                   .exposed = report.share(&simulate::RankReport::exposed),
                                   .idle = report.share(&simulate::RankReport::idle)};
}

}  // namespace

RunFacts collect_facts(const RunParts& parts, Ranks& ranks, const CompiledTraining& compiled,
                       const Trainer& trainer, Device& device) {
  const bool is_text = static_cast<bool>(parts.data.text);
  RunFacts facts;
  facts.model = name_of(parts.model.config);
  facts.weights = parts.model.weights ? weights_text(*parts.model.weights) : "";
  facts.data = parts.data.name;
  const std::int64_t per_example = is_text ? parts.settings.length : 1;
  facts.data_units = parts.data.training->epoch_size() * per_example;
  facts.validation_units =
      parts.data.validation ? parts.data.validation->epoch_size() * per_example : 0;
  facts.device = device.name();
  facts.dtype = dtype_text(parts.settings);
  facts.optimizer = to_text(trainer.training().optimizer);
  facts.rate = rate_text(learning_rate(parts.settings, parts.model.config));
  facts.parameters = trainer.parameter_count();
  facts.vocabulary = parts.data.vocabulary;
  facts.first_step = trainer.step();
  facts.steps = parts.settings.steps;
  facts.unit = is_text ? "tokens" : "examples";
  facts.units_per_step = parts.settings.batch * per_example;
  facts.gradients = gradients_text(facts, ranks.workers(), parts.settings.sync);
  facts.model_flops = ranks.workers() * trainer.flops().model().products;
  facts.hardware_flops = ranks.workers() * trainer.flops().hardware().products;
  const double concurrent = concurrent_ranks(ranks, device);
  facts.measured_flops =
      measure_peak(ranks, device, parse_dtype(parts.settings.dtype)) * concurrent;
  facts.peak_flops = specified_peak(device, parts.settings.dtype) * concurrent;
  facts.peak_flops = facts.peak_flops > 0 ? facts.peak_flops : facts.measured_flops;
  const LargestNeed largest = largest_need(parts.memory, ranks);
  facts.memory = largest.need.total();
  facts.memory_parts = memory_parts(largest.need);
  facts.memory_rank = largest.rank;
  facts.ranks = ranks_text(parts.plan, parts.settings.sync);
  facts.gradient_traffic = gradient_traffic(parts, compiled);
  facts.bounds = parts.data.bounds;
  facts.notes =
      run_notes(parts.settings, parts.plan, parts.model.config,
                device.machine_share() > 0 ? std::optional(usable_cores()) : std::nullopt);
  predict_step(parts, ranks, compiled, device, facts);
  return facts;
}

}  // namespace trireme::train
