// Plans, one line each.
#pragma once

#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/plan.h"

namespace trireme {

/// A plan in the tests' notation.
struct Case {
  std::string mesh{};
  int microbatches = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  int zero = 0;
  bool sequence = false;
  Plan::Context context = Plan::Context::Gather;
  RecomputeMode recompute = RecomputeMode::None;
  std::vector<int> stage_blocks{};
  Bytes bucket{};
};

inline std::string describe(const Case& c) {
  return fmt::format(
      "mesh {} microbatches {} schedule {} chunks {} zero {} sequence {} context {} recompute {} "
      "stage_blocks {} bucket {}",
      c.mesh, c.microbatches, c.schedule, c.chunks, c.zero, c.sequence, to_text(c.context),
      to_text(c.recompute), fmt::join(c.stage_blocks, "+"), c.bucket.count);
}

inline Plan plan_of(const Case& c) {
  Plan plan;
  plan.mesh = parse_mesh(c.mesh);
  plan.microbatches = c.microbatches;
  plan.schedule = c.schedule;
  plan.chunks = c.chunks;
  plan.zero = c.zero;
  plan.sequence = c.sequence;
  plan.context = c.context;
  plan.recompute.mode = c.recompute;
  plan.stage_blocks = c.stage_blocks;
  plan.bucket = c.bucket;
  return plan;
}

}  // namespace trireme
