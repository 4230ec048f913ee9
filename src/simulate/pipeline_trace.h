// A timed pipeline as a predicted Trace. Callable from any thread.
#pragma once

#include "simulate/pipeline_report.h"
#include "trireme/trace.h"

namespace trireme::simulate {

/// Each rank is a process with its tasks as spans, arrows for messages, and its activations as a
/// counter; one unit of time is a millisecond. Requires a table without problems.
[[nodiscard]] Trace pipeline_trace(const PipelineReport& report);

}  // namespace trireme::simulate
