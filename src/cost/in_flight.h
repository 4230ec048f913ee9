// How many micro-batches' activations a pipeline rank keeps.
#pragma once

#include <algorithm>

#include "trireme/cost.h"

namespace trireme {

/// The most micro-batches whose activations the first rank keeps at one time.
inline double in_flight(const ParallelLayout& layout, double n) {
  const double p = layout.pipe;
  switch (layout.schedule) {
    case PipelineForm::Naive:
      return 1;
    case PipelineForm::Gpipe:
      return n;
    case PipelineForm::ZbH2:
      return std::min(n, 2 * p - 1);
    case PipelineForm::Interleaved:
      return std::min(n, p * (1 + (p - 1) / (p * layout.chunks)));
    case PipelineForm::ZbV:  // half a stage each: on the way down, and one on the way up
      return std::min(n + 1, 2 * p) / 2;
    default:
      return std::min(n, p);
  }
}

/// The same of the last rank, which starts the backward pass of a micro-batch right after its forward pass.
inline double in_flight_last(const ParallelLayout& layout, double n) {
  switch (layout.schedule) {
    case PipelineForm::Naive:
    case PipelineForm::OneFOneB:
      return 1;
    case PipelineForm::Interleaved:
      return std::min(n, layout.pipe * (1 - 1.0 / layout.chunks) + 1.0 / layout.chunks);
    default:
      return in_flight(layout, n);
  }
}

}  // namespace trireme
