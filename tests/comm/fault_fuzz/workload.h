// Runs the ops of a scenario on a group and checks the results, which the members and the step
// determine. Used by one rank's main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>

#include "comm/fault_fuzz/scenario.h"
#include "trireme/comm.h"

namespace trireme::fault_fuzz {

/// A call returned normally with a wrong result.
class WrongResult : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Runs and times a call that may block.
using Timed = std::function<void(const std::function<void()>& call)>;

/// Runs the op. Throws CommError, or WrongResult. Every member calls it with the same op and step.
void run_op(const Op& op, Group& group, std::int64_t step, const Timed& timed);

}  // namespace trireme::fault_fuzz
