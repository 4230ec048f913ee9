// One result of a worked example.
#pragma once

#include "trireme/estimate_examples.h"

namespace trireme {

/// value("opt", "…", {{"workers", 64}}) is that result with 64 workers instead of the example's own number.
[[nodiscard]] inline double value(const char* name, const char* what,
                                  const ExampleInputs& set = {}) {
  return example(name, set).result(what).value;
}

}  // namespace trireme
