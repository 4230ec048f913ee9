// The worked examples of estimates, as text and as JSON. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/estimate_examples.h"

namespace trireme::report {

[[nodiscard]] std::string example_text(const Example& example, const Terminal& terminal);
[[nodiscard]] std::string example_json(const Example& example);
/// One line per example.
[[nodiscard]] std::string example_list_text(const Terminal& terminal);
[[nodiscard]] std::string example_list_json();

}  // namespace trireme::report
