#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "base/median.h"
#include "trireme/error.h"
#include "trireme/validation.h"

namespace trireme {
namespace {

using Runs = std::vector<const MeasuredRun*>;

/// The signed errors of a run, one for each draw that predicted it.
using Errors = std::map<const MeasuredRun*, std::vector<double>>;

double mean(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

/// Chooses `count` runs, by a generator that is the same on every platform.
Runs choose(Runs& runs, std::size_t count, std::mt19937_64& random) {
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(runs[i], runs[i + random() % (runs.size() - i)]);
  }
  return {runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(count)};
}

class Validator {
 public:
  Validator(const std::vector<MeasuredRun>& runs, const ValidationOptions& options)
      : options_(options) {
    for (const MeasuredRun& run : runs) {
      sources_[run.source].push_back(&run);
    }
  }

  Validation run() {
    for (const auto& [source, runs] : sources_) {
      std::mt19937_64 random(options_.seed);
      for (int draw = 0; draw < options_.draws; ++draw) {
        predict_rest(runs, random);
      }
    }
    summarize();
    add_regrets();
    add_accounting();
    return std::move(result_);
  }

 private:
  void predict_rest(Runs runs, std::mt19937_64& random) {
    const auto count = static_cast<std::size_t>(
        std::floor(options_.share * static_cast<double>(runs.size()) + 1e-9));
    const Correction correction = fit(choose(runs, count, random), options_.fit);
    std::vector<double> absolute;
    for (std::size_t i = count; i < runs.size(); ++i) {
      const double error =
          100 * (predicted_cost(*runs[i], correction).seconds / runs[i]->seconds - 1);
      errors_[runs[i]].push_back(error);
    }
  }

  [[nodiscard]] ErrorSummary summary(std::string name, const Runs& runs) const {
    std::vector<double> absolute;
    for (const MeasuredRun* run : runs) {
      if (const auto found = errors_.find(run); found != errors_.end()) {
        for (const double error : found->second) {
          absolute.push_back(std::abs(error));
        }
      }
    }
    return {.name = std::move(name),
            .runs = static_cast<int>(runs.size()),
            .mean = mean(absolute),
            .median = median(absolute)};
  }

  void summarize() {
    Runs all;
    std::map<std::string, Runs> features;
    for (const auto& [source, runs] : sources_) {
      result_.by_source.push_back(summary(source, runs));
      for (const MeasuredRun* run : runs) {
        all.push_back(run);
        for (const std::string& feature : run->features) {
          features[feature].push_back(run);
        }
      }
    }
    for (const auto& [feature, runs] : features) {
      result_.by_feature.push_back(summary(feature, runs));
    }
    result_.all = summary("all", all);
    for (const MeasuredRun* run : all) {
      if (const auto found = errors_.find(run); found != errors_.end()) {
        const double error = mean(found->second);
        result_.worst.push_back({run, run->seconds * (1 + error / 100), error});
      }
    }
    std::ranges::stable_sort(result_.worst, std::greater{},
                             [](const RunError& e) { return std::abs(e.percent); });
  }

  /// The choice among the measured layouts, by the average prediction of each.
  void add_regrets() {
    std::map<std::string, std::vector<const RunError*>> groups;
    for (const RunError& error : result_.worst) {
      const MeasuredRun& run = *error.run;
      groups[fmt::format("{}, {} x {}, batch {}", run.model.model.name, run.layout.devices(),
                         run.device, run.work.batch)]
          .push_back(&error);
    }
    for (const auto& [what, members] : groups) {
      if (members.size() < 2) {
        continue;
      }
      const auto* const chosen = *std::ranges::min_element(members, {}, &RunError::seconds);
      double best = chosen->run->seconds;
      for (const RunError* member : members) {
        best = std::min(best, member->run->seconds);
      }
      result_.regrets.push_back(
          {what, static_cast<int>(members.size()), 100 * (chosen->run->seconds / best - 1)});
      result_.worst_regret = std::max(result_.worst_regret, result_.regrets.back().percent);
      result_.mean_regret += result_.regrets.back().percent;
    }
    result_.mean_regret /= std::max<double>(1, static_cast<double>(result_.regrets.size()));
  }

  void add_accounting() {
    for (const auto& [source, runs] : sources_) {
      AccountingSummary summary{.source = source};
      for (const MeasuredRun* run : runs) {
        if (const std::optional<Accounting> found = account(*run)) {
          summary.convention = found->convention;
          summary.compared = found->compared;
          summary.worst = std::max(summary.worst, std::abs(found->difference()));
          ++summary.runs;
        }
      }
      if (summary.runs > 0) {
        result_.accounting.push_back(summary);
      }
    }
  }

  ValidationOptions options_;
  std::map<std::string, Runs> sources_;
  Errors errors_;
  Validation result_;
};

}  // namespace

Validation validate(const std::vector<MeasuredRun>& runs, const ValidationOptions& options) {
  return Validator(runs, options).run();
}

Calibration calibrate(const Cluster& cluster, const std::vector<MeasuredRun>& runs,
                      const std::string& source) {
  std::vector<const MeasuredRun*> own;
  for (const MeasuredRun& run : runs) {
    if (run.cluster.device.name == cluster.device.name) {
      own.push_back(&run);
    }
  }
  if (own.empty()) {
    throw Error(ErrorKind::Usage, fmt::format("{} has no runs on {}, the device of {}", source,
                                              cluster.device.name, cluster.name));
  }
  const auto mean_error = [&](const Correction& correction) {
    double sum = 0;
    for (const MeasuredRun* run : own) {
      sum += std::abs(predicted_cost(*run, correction).seconds / run->seconds - 1);
    }
    return 100 * sum / static_cast<double>(own.size());
  };
  const Correction correction = fit(own, {});
  Calibration result{.efficiency = correction.apply(efficiency_of(cluster)),
                     .runs = own.size(),
                     .error_before = mean_error({}),
                     .error_after = mean_error(correction)};
  result.efficiency.source = fmt::format("fitted to {} runs of {}", own.size(), source);
  return result;
}

}  // namespace trireme
