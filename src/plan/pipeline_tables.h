// The makers of pipeline tables. Each takes options that the catalogue has checked.
#pragma once

#include "trireme/pipeline.h"

namespace trireme {

[[nodiscard]] PipelineTable make_naive(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_gpipe(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_1f1b(const PipelineOptions& options);

}  // namespace trireme
