// How a parameter's optimizer appears in the graph of a step.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/training.h"

namespace trireme {

struct OptimizerRecipe {
  std::string_view op{};
  std::vector<std::string_view>
      states{};  ///< prefixes of their names, in the order of the op's inputs
  Attributes attributes{};
  bool counts_steps = false;  ///< the op has an input `step`
};

/// The node that updates this parameter, with its weight decay.
[[nodiscard]] OptimizerRecipe optimizer_recipe(const TrainingOptions& options,
                                               const Value& parameter);

}  // namespace trireme
