// A whole training run, and what it reported.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "trireme/train.h"

namespace trireme {

struct Ran {
  std::map<std::int64_t, StepReport> steps{};
  std::map<std::int64_t, double> losses{};  ///< of these steps
  RunSummary summary{};
};

inline Ran run_all(RunOptions options) {
  Ran ran;
  options.observer.step = [&](const RunFacts&, const StepReport& report) {
    ran.steps[report.step] = report;
    ran.losses[report.step] = report.loss;
  };
  options.observer.end = [&](const RunFacts&, const RunSummary& summary) { ran.summary = summary; };
  run_ranks(std::move(options), [](TrainingRun& run) { run.train(); });
  return ran;
}

}  // namespace trireme
