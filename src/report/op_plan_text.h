// An op-level plan as text and as JSON: where every value is. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/op_planning.h"

namespace trireme::report {

struct ShownOpPlan {
  const OpPlan& plan;
  std::string model{};
  std::string cluster{};
};

[[nodiscard]] std::string op_plan_text(const ShownOpPlan& shown, const Terminal& terminal);
[[nodiscard]] std::string op_plan_json(const ShownOpPlan& shown);

}  // namespace trireme::report
