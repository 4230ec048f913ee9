#include "report/pipeline_json.h"

#include <utility>
#include <vector>

#include "base/json.h"

namespace trireme::report {
namespace {

using simulate::PipelineComparison;
using simulate::PipelineReport;
using simulate::PipelineRow;

Json durations_json(const PipelineDurations& durations) {
  return {{"forward", durations.forward},
          {"backward_input", durations.backward_input},
          {"backward_weight", durations.backward_weight},
          {"update", durations.update},
          {"message", durations.message}};
}

/// By rank, in order; with times and versions if the table is valid.
Json tasks_json(const PipelineReport& report) {
  const bool right = report.problems.empty();
  const std::vector<std::vector<int>> versions =
      right ? weight_versions(report.table) : std::vector<std::vector<int>>{};
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < report.table.tasks.size(); ++rank) {
    Json tasks = Json::array();
    for (std::size_t i = 0; i < report.table.tasks[rank].size(); ++i) {
      const PipelineTask& task = report.table.tasks[rank][i];
      Json json{{"work", to_text(task.work)},
                {"stage", task.stage},
                {"microbatch", task.microbatch},
                {"copy", task.copy}};
      if (right) {
        json["start"] = report.timing.tasks[rank][i].start;
        json["end"] = report.timing.tasks[rank][i].end;
      }
      if (right && task.work != PipelineWork::Update) {
        json["version"] = versions[task.stage][task.microbatch];
      }
      tasks.push_back(std::move(json));
    }
    ranks.push_back(std::move(tasks));
  }
  return ranks;
}

/// Everything but the tasks.
Json pipeline_facts(const PipelineReport& report) {
  const PipelineTable& table = report.table;
  Json json{{"name", table.name},
            {"ranks", table.ranks},
            {"stages", table.stages},
            {"copies", table.copies},
            {"microbatches", table.microbatches},
            {"weights", to_text(table.weights)}};
  json["placement"] = table.placement;
  json["durations"] = durations_json(report.durations);
  json["verified"] = report.problems.empty();
  json["errors"] = report.problems;
  if (report.problems.empty()) {
    const PipelineTiming& timing = report.timing;
    json["makespan"] = timing.makespan;
    json["work"] = timing.work;
    json["bubble"] = timing.bubble;
    json["rank_bubble"] = timing.rank_bubble;
    json["steady_bubble"] = timing.steady_bubble ? Json(*timing.steady_bubble) : Json(nullptr);
    json["formula"] = report.formula.empty() ? Json(nullptr) : Json(report.formula);
    json["activations"] = report.activations;
    json["versions"] = report.versions;
    json["messages"] = report.messages;
  }
  return json;
}

}  // namespace

std::string pipeline_json(const PipelineReport& report) {
  Json json = pipeline_facts(report);
  json["tasks"] = tasks_json(report);
  return json.dump() + "\n";
}

std::string pipeline_comparison_json(const PipelineComparison& comparison) {
  Json rows = Json::array();
  for (const PipelineRow& row : comparison.rows) {
    if (row.report) {
      rows.push_back(pipeline_facts(*row.report));
    } else {
      rows.push_back({{"name", row.name}, {"unfit", row.problems.front()}});
    }
  }
  Json json{{"stages", comparison.options.ranks},
            {"microbatches", comparison.options.microbatches},
            {"chunks", comparison.options.chunks}};
  json["schedules"] = std::move(rows);
  return json.dump() + "\n";
}

}  // namespace trireme::report
