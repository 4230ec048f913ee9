// How often and over how many ranks a layout does things in a step.
#pragma once

#include "trireme/cost.h"

namespace trireme {

inline double microbatches_of(const ParallelLayout& layout, const Workload& work) {
  return static_cast<double>(work.batch) /
         (static_cast<double>(layout.data) * static_cast<double>(layout.microbatch));
}

/// How many ranks ZeRO shards over.
inline double shards(const ParallelLayout& layout) {
  return static_cast<double>(layout.data) * layout.context;
}

}  // namespace trireme
