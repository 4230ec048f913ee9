// How well predictions match measured runs, as text and as JSON. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/validation.h"

namespace trireme::report {

struct ValidationTextOptions {
  Terminal terminal{};
  ValidationOptions how{};
  int worst = 10;  ///< how many of the worst predictions to list
};

[[nodiscard]] std::string validation_text(const MeasuredRuns& runs, const Validation& validation,
                                          const ValidationTextOptions& options);
[[nodiscard]] std::string validation_json(const MeasuredRuns& runs, const Validation& validation);

}  // namespace trireme::report
