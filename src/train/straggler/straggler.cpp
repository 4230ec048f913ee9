#include "trireme/straggler.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>

#include <fmt/format.h>

#include "train/clock.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using train::Clock;

/// The loss of a batch is noisy: curves are means over this many steps.
constexpr std::size_t kSmoothed = 10;

/// Collects the loss curve of a run as it proceeds.
class Recorder {
 public:
  explicit Recorder(StragglerRun& run) : run_(run) {}

  void begin() { start_ = Clock::now(); }
  void add(const StepReport& report) {
    last_.push_back(report.loss);
    if (last_.size() > kSmoothed) {
      last_.pop_front();
    }
    const double sum = std::accumulate(last_.begin(), last_.end(), 0.0);
    run_.curve.push_back({.step = report.step,
                          .time = train::since(start_),
                          .loss = sum / static_cast<double>(last_.size())});
    if (report.sync) {
      run_.staleness = std::max(run_.staleness, report.sync->staleness);
      run_.spread = std::max(run_.spread, report.sync->spread);
    }
  }

 private:
  StragglerRun& run_;
  Clock::time_point start_ = Clock::now();
  std::deque<double> last_;
};

RunOptions options_for(const StragglerOptions& options, const SyncSpec& strategy) {
  RunOptions run = options.run;
  run.settings.sync = to_text(strategy);
  run.rank_kind = RankKind::Threads;
  run.run_folder = fmt::format("{}/{}", options.run.run_folder, to_text(strategy));
  run.delay = [&options](int worker, std::int64_t step) -> Seconds {
    return {options.compute.count * options.slowdown(worker, step)};
  };
  return run;
}

StragglerRun run_one(const StragglerOptions& options, const SyncSpec& strategy) {
  StragglerRun result;
  result.strategy = strategy;
  Recorder recorder(result);
  RunOptions run = options_for(options, strategy);
  run.observer.begin = [&](const RunFacts&) { recorder.begin(); };
  run.observer.step = [&](const RunFacts&, const StepReport& report) { recorder.add(report); };
  run.observer.end = [&](const RunFacts&, const RunSummary& summary) {
    result.validation = summary.validation.value_or(0);
  };
  run_ranks(std::move(run), [](TrainingRun& training) { training.train(); });
  return result;
}

double lowest_loss(const StragglerRun& run) {
  return std::ranges::min_element(run.curve, {}, &LossPoint::loss)->loss;
}

}  // namespace

std::vector<std::string> problems(const StragglerOptions& o) {
  std::vector<std::string> found;
  const auto require = [&](bool holds, const std::string& otherwise) {
    if (!holds) {
      found.push_back(otherwise);
    }
  };
  const int workers = o.run.plan.mesh.size("data");
  require(workers >= 2 && o.run.plan.mesh.devices() == workers,
          fmt::format("--workers is {}; it must be 2 or more", workers));
  require(!o.strategies.empty(), "no strategies to compare; give --strategies");
  require(static_cast<bool>(o.slowdown), "StragglerOptions::slowdown is empty");
  require(o.compute.count > 0,
          fmt::format("--compute is {} s; it must be more than 0", o.compute.count));
  require(o.run.settings.steps >= 1, "--steps must be 1 or more");
  for (const SyncSpec& strategy : o.strategies) {
    RunOptions run = o.run;
    run.settings.sync = to_text(strategy);
    run.run_folder = fmt::format("{}/{}", o.run.run_folder, run.settings.sync);
    std::ranges::copy(problems(run), std::back_inserter(found));
  }
  return found;
}

const LossPoint& first_with_loss(const StragglerRun& run, double loss) {
  return *std::ranges::find_if(run.curve, [&](const LossPoint& at) { return at.loss <= loss; });
}

StragglerReport compare_under_stragglers(const StragglerOptions& options) {
  require_valid(options);
  StragglerReport report;
  report.model = options.run.settings.model;
  report.workers = options.run.plan.mesh.size("data");
  report.steps = options.run.settings.steps;
  report.compute = options.compute;
  for (const SyncSpec& strategy : options.strategies) {
    if (options.begin) {
      options.begin(strategy);
    }
    report.runs.push_back(run_one(options, strategy));
    report.loss = std::max(report.loss, lowest_loss(report.runs.back()));
  }
  return report;
}

}  // namespace trireme
