// Validation: how far the cost model is from measured runs, and what its choices would have cost.
//
// Pure; all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/measured_runs.h"

namespace trireme {

struct ValidationOptions {
  double share =
      0;  ///< of each source's runs that the model is calibrated on, chosen at random; the rest is predicted
  int draws = 1;  ///< random choices of that share; errors are averages over all
  std::uint64_t seed = 1;
  FitOptions fit{};
};

/// Absolute errors of predicted times, in percent of the measured ones.
struct ErrorSummary {
  std::string name{};
  int runs = 0;
  double mean = 0;
  double median = 0;
};

/// A run and its error, on average over the draws in which it was predicted.
struct RunError {
  const MeasuredRun* run = nullptr;
  double seconds = 0;  ///< predicted
  double percent = 0;  ///< signed
};

/// How far the published utilizations and rates are from what the measured times give by the source's own formula.
struct AccountingSummary {
  std::string source{};
  FlopConvention convention{};
  Accounting::Compared compared{};
  int runs = 0;
  double worst = 0;  ///< see Accounting::difference()
};

/// How much longer the layout that the model ranks first takes, in percent of the best measured one of the same model,
/// batch and number of devices. Only where at least two layouts were measured.
struct Regret {
  std::string what{};
  int layouts = 0;
  double percent = 0;
};

struct Validation {
  ErrorSummary all{};
  std::vector<ErrorSummary> by_source{};
  std::vector<ErrorSummary> by_feature{};
  std::vector<RunError> worst{};  ///< by size of the error, all runs
  std::vector<Regret> regrets{};
  std::vector<AccountingSummary> accounting{};
  double mean_regret = 0;
  double worst_regret = 0;
};

/// The runs must outlive the result.
[[nodiscard]] Validation validate(const std::vector<MeasuredRun>& runs,
                                  const ValidationOptions& options);

/// A cluster's efficiency, fitted to measured runs.
struct Calibration {
  Efficiency efficiency{};
  std::size_t runs = 0;     ///< that it is fitted to: those on the cluster's device
  double error_before = 0;  ///< mean absolute error of their predicted times, in percent
  double error_after = 0;
};

/// `source` names the runs, for the efficiency's own source. Throws Error(Usage) if none is on the cluster's device.
[[nodiscard]] Calibration calibrate(const Cluster& cluster, const std::vector<MeasuredRun>& runs,
                                    const std::string& source);

}  // namespace trireme
