// The estimates of a model as one JSON object; unknown numbers are null. Callable from any thread.
#pragma once

#include <string>

#include "trireme/estimate_report.h"

namespace trireme::report {

[[nodiscard]] std::string estimate_json(const EstimateReport& report);

}  // namespace trireme::report
