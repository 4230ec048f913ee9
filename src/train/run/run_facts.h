// Facts about a run that are known before its first step. One thread at a time.
#pragma once

#include "train/run/ranks.h"
#include "train/run/run_model.h"
#include "train/step/memory_plan.h"
#include "train/step/trainer.h"
#include "trireme/train.h"

namespace trireme::train {

/// The parts of a run.
struct RunParts {
  const TrainSettings& settings;
  const Plan& plan;
  const TrainData& data;
  const RunModel& model;
  const std::optional<HostCosts>& host;
  const MemoryNeed& memory;
};

/// Measures the device's peak; on rank 0 predicts the step. Collective.
[[nodiscard]] RunFacts collect_facts(const RunParts& parts, Ranks& ranks,
                                     const CompiledTraining& compiled, const Trainer& trainer,
                                     Device& device);

}  // namespace trireme::train
