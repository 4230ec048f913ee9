// Options of an estimate, as entered by the user. Values; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/estimate_report.h"
#include "trireme/model_sizes.h"

namespace trireme {

struct EstimateOptions {
  std::string model = "gpt2-small";
  std::int64_t batch = 1;
  std::int64_t length = 0;  ///< 0: the model's context, at most 8192
  std::string device = "h100";
  std::string dtype = "bf16";
  std::string recompute = "none";
  std::string optimizer = "adamw";
  std::string family{};  ///< "": the model's
  int devices = 1;
  std::string step_time{};  ///< measured, such as "350ms"; "": unknown
  double tokens = 0;        ///< of a whole run; 0: no run
  double mfu = 0;           ///< of that run; 0: from step_time
  ModelSizes sizes{};       ///< in place of the model's
};

/// Throws Error(Usage) that names the option.
[[nodiscard]] EstimateRequest make_estimate_request(const EstimateOptions& options);

}  // namespace trireme
