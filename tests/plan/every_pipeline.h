// Every table of the catalogue over a range of ranks and micro-batches.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/pipeline.h"

namespace trireme {

/// What problems() says, one problem a line.
inline std::string problems_text(const PipelineTable& table) {
  return fmt::format("{}", fmt::join(problems(table), "\n"));
}

/// Calls visit(options, table) for every schedule that fits 1 to `ranks` ranks and 1 to
/// `microbatches` micro-batches; interleaved with 2 and 3 stages per rank.
template <class Visitor>
void for_every_pipeline(int ranks, int microbatches, const Visitor& visit) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    for (PipelineOptions options{.ranks = 1}; options.ranks <= ranks; ++options.ranks) {
      for (options.microbatches = 1; options.microbatches <= microbatches; ++options.microbatches) {
        for (options.chunks = 2; options.chunks <= (schedule.has_chunks ? 3 : 2);
             ++options.chunks) {
          if (!problems(schedule, options).empty()) {
            continue;
          }
          SCOPED_TRACE(fmt::format("{}, D = {}, N = {}, K = {}", schedule.name, options.ranks,
                                   options.microbatches, options.chunks));
          visit(options, make_pipeline(schedule.name, options));
        }
      }
    }
  }
}

}  // namespace trireme
