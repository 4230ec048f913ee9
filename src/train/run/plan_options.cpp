#include "trireme/plan_options.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "plan/pipeline_tables.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/message.h"

namespace trireme {

namespace {

constexpr std::string_view kAuto = "auto";

/// Sets the schedule from its name or from a file with a table, which also sets the number of micro-batches.
void set_schedule(const std::string& given, Plan& plan) {
  const std::vector<std::string> names = plan_schedule_names();
  if (given == kTokenSchedule || std::ranges::find(names, given) != names.end()) {
    plan.schedule = given;
    return;
  }
  require(given.ends_with(".pipeline") || std::filesystem::exists(given),
          "--schedule: " + unknown_name("pipeline schedule", given, names));
  plan.table = parsed("--schedule", given, [](const std::string& path) {
    return parsed(path, read_file(path), parse_pipeline);
  });
  plan.schedule = plan.table->name;
  plan.microbatches = plan.microbatches == 1 ? plan.table->microbatches : plan.microbatches;
}

void require_ranks(const PlanOptions& options) {
  if (options.ranks && *options.ranks < 1) {
    throw Error(ErrorKind::Usage, fmt::format("-n is {}; it must be 1 or more", *options.ranks));
  }
}

/// All but the mesh.
void set_options(const PlanOptions& from, Plan& plan) {
  plan.microbatches = from.microbatches.value_or(1);
  set_schedule(from.schedule, plan);
  plan.chunks = from.chunks;
  plan.zero = from.zero.value_or(0);
  require(plan.zero >= 0 && plan.zero <= 3,
          fmt::format("--zero is {}; it must be 0, 1, 2 or 3", plan.zero));
  plan.sequence = from.sequence;
  plan.context = parsed("--context", from.context, parse_context);
  plan.compression = parsed("--compress", from.compression, parse_compression);
}

}  // namespace

std::vector<std::string> plan_schedule_names() {
  std::vector<std::string> names;
  for (const PipelineSchedule& row : pipeline_schedules()) {
    if (row.name != kTokenSchedule) {
      names.emplace_back(row.name);
    }
  }
  return names;
}

bool PlanOptions::is_automatic() const {
  return mesh == kAuto;
}

bool PlanOptions::is_only_ranks() const {
  PlanOptions only_ranks;
  only_ranks.ranks = ranks;
  return ranks > 1 && *this == only_ranks;
}

Plan PlanOptions::fixed_part() const {
  require_ranks(*this);
  Plan plan;
  set_options(*this, plan);
  return plan;
}

Plan PlanOptions::plan() const {
  require_ranks(*this);
  if (mesh == kAuto) {
    throw Error(ErrorKind::Usage,
                "--mesh auto: a plan is chosen only by 'trireme train', for ranks that it starts "
                "itself; give the axes, such as --mesh data=2");
  }
  Plan result;
  if (!file.empty()) {
    result = parsed("--plan", file, [](const std::string& path) {
      return parsed(path, read_file(path), parse_plan);
    });
  } else {
    const std::string wanted = !mesh.empty() ? mesh
                               : ranks > 1   ? fmt::format("data={}", *ranks)
                                             : "";
    result.mesh = parsed("--mesh", wanted, parse_mesh);
    set_options(*this, result);
  }
  require_valid(result);
  if (ranks && *ranks != result.mesh.devices()) {
    throw Error(ErrorKind::Usage,
                fmt::format("-n is {}, but the mesh {} has {} devices; leave out -n, or make them "
                            "agree",
                            *ranks, to_text(result.mesh), result.mesh.devices()));
  }
  return result;
}

}  // namespace trireme
