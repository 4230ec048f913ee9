// The worked examples whose inputs can be replaced. Callable from any thread.
#pragma once

#include <span>
#include <string_view>

#include "trireme/estimate_examples.h"

namespace trireme {

struct Calculator {
  std::string_view name;
  Example (*make)(const ExampleInputs& set);
};

/// In the order in which they are listed.
[[nodiscard]] std::span<const Calculator> calculators();

}  // namespace trireme
