// The estimates of a model as text, within 90 columns. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/estimate_report.h"

namespace trireme::report {

struct EstimateTextOptions {
  Terminal terminal{};
  int ops = 10;  ///< rows of the table of ops
};
[[nodiscard]] std::string estimate_text(const EstimateReport& report,
                                        const EstimateTextOptions& look);

}  // namespace trireme::report
