// Verifies a plan independently of any graph.
#include <algorithm>

#include <fmt/format.h>

#include "plan/assignments.h"
#include "plan/axis_names.h"
#include "plan/pipeline_tables.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

std::vector<std::string> schedule_problems(const Plan& plan, const PipelineOptions& options) {
  try {
    const PipelineSchedule& row = find_pipeline_schedule(plan.schedule);
    if (row.name == kTokenSchedule) {
      return {
          fmt::format("{} divides sequences, but plans divide the batch: it can be timed and drawn "
                      "with trireme "
                      "pipeline, not run; use gpipe, or shard the sequence along context",
                      kTokenSchedule)};
    }
    return options.ranks > 1 ? problems(row, options) : std::vector<std::string>{};
  } catch (const Error& error) {
    return {error.what()};
  }
}

/// Why the pipeline is impossible.
std::vector<std::string> pipeline_problems(const Plan& plan) {
  const PipelineOptions options{
      .ranks = plan.mesh.size(kPipe), .microbatches = plan.microbatches, .chunks = plan.chunks};
  if (!plan.table) {
    return schedule_problems(plan, options);
  }
  const PipelineTable& table = *plan.table;
  if (table.ranks != options.ranks || table.microbatches != options.microbatches) {
    return {fmt::format(
        "the table {} is for {} ranks and {} micro-batches, the plan has {} along pipe and {}; "
        "make them agree",
        table.name, table.ranks, table.microbatches, options.ranks, options.microbatches)};
  }
  std::vector<std::string> found = problems(table);
  for (std::string& problem : found) {
    problem = fmt::format("the table {}: {}", table.name, problem);
  }
  return found;
}

class PlanVerifier {
 public:
  explicit PlanVerifier(const Plan& plan) : plan_(plan) {}

  std::vector<std::string> run() {
    check_axes();
    check_pipeline();
    if (problems_.empty()) {  // the table is valid
      check_compression();
      add(assignment_problems(plan_));
    }
    check_levels();
    check_stages();
    return std::move(problems_);
  }

 private:
  void require(bool holds, const std::string& otherwise) {
    if (!holds) {
      problems_.push_back(otherwise);
    }
  }

  void add(const std::vector<std::string>& found) {
    problems_.insert(problems_.end(), found.begin(), found.end());
  }

  void check_axes() {
    for (const MeshAxis& axis : plan_.mesh.axes()) {
      require(axis.name == kPipe || axis.name == kData ||
                  std::ranges::find(plan_.sharding, axis.name, &AxisSharding::axis) !=
                      plan_.sharding.end(),
              fmt::format("mesh {}: {}", to_text(plan_.mesh),
                          unknown_name("axis", axis.name,
                                       {"data", "tensor", "context", "expert", "pipe"})));
    }
  }

  void check_pipeline() {
    require(plan_.microbatches >= 1,
            fmt::format("{} micro-batches; use 1 or more", plan_.microbatches));
    require(plan_.chunks >= 1, fmt::format("{} chunks; use 1 or more", plan_.chunks));
    add(pipeline_problems(plan_));
  }

  void check_compression() {
    if (!plan_.compression.any()) {
      return;
    }
    const PipelineTable table = table_of(plan_);
    require(
        table.weights != WeightVersions::Newest,
        fmt::format("the schedule {} updates each parameter separately, but compression {} keeps "
                    "one residual for all of them; use no compression, or pipedream-2bw",
                    table.name, to_text(plan_.compression)));
  }

  void check_levels() {
    require(plan_.zero >= 0 && plan_.zero <= 3,
            fmt::format("invalid ZeRO level {}; use 0, 1, 2 or 3", plan_.zero));
    const RecomputeChoice& recompute = plan_.recompute;
    if (recompute.budget) {
      require(recompute.mode == RecomputeMode::None,
              fmt::format("recompute is {} and has a budget too, {}; leave out one of them",
                          to_text(recompute.mode), to_text(*recompute.budget)));
    }
  }

  void check_stages() {
    require(plan_.bucket.count >= 0,
            fmt::format("a bucket of {} bytes; use 0 or more", plan_.bucket.count));
    if (plan_.stage_blocks.empty() || !problems_.empty()) {
      return;
    }
    const int stages = table_of(plan_).stages;
    require(static_cast<int>(plan_.stage_blocks.size()) == stages,
            fmt::format("stage_blocks has {} entries, the pipeline {} stages; give one for each",
                        plan_.stage_blocks.size(), stages));
    require(std::ranges::all_of(plan_.stage_blocks, [](int blocks) { return blocks >= 1; }),
            "stage_blocks has a stage without blocks; give each 1 or more");
  }

  const Plan& plan_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems(const Plan& plan) {
  return PlanVerifier(plan).run();
}

}  // namespace trireme
