#include "report/straggler_text.h"

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {
namespace {

double seconds_to_loss(const StragglerReport& report, const StragglerRun& run) {
  return first_with_loss(run, report.loss).time.count;
}

double speed_up(const StragglerReport& report, const StragglerRun& run) {
  return seconds_to_loss(report, report.runs.front()) / seconds_to_loss(report, run);
}

std::string row(const StragglerReport& report, const StragglerRun& run) {
  const LossPoint& reached = first_with_loss(run, report.loss);
  return fmt::format("  {:<18} {:>12} {:>9} {:>6} {:>10} {:>11.3f} {:>10} {:>8.1e}\n",
                     to_text(run.strategy), to_text(reached.time),
                     fmt::format("{:.2f} x", speed_up(report, run)), reached.step,
                     to_text(run.time()), run.validation, run.staleness, run.spread);
}

Json to_json(const StragglerReport& report, const StragglerRun& run) {
  const LossPoint& reached = first_with_loss(run, report.loss);
  Json json;
  json["strategy"] = to_text(run.strategy);
  json["seconds_to_loss"] = reached.time.count;
  json["steps_to_loss"] = reached.step;
  json["speed_up"] = speed_up(report, run);
  json["seconds"] = run.time().count;
  json["validation_loss"] = run.validation;
  json["max_staleness"] = run.staleness;
  json["max_spread"] = run.spread;
  for (const LossPoint& point : run.curve) {
    json["curve"].push_back({point.time.count, point.loss});
  }
  return json;
}

Json to_json(const StragglerScenario& scenario) {
  Json json;
  json["scenario"] = scenario.name;
  json["meaning"] = scenario.meaning;
  json["model"] = scenario.report.model;
  json["workers"] = scenario.report.workers;
  json["steps"] = scenario.report.steps;
  json["compute_seconds"] = scenario.report.compute.count;
  json["loss"] = scenario.report.loss;
  for (const StragglerRun& run : scenario.report.runs) {
    json["strategies"].push_back(to_json(scenario.report, run));
  }
  return json;
}

}  // namespace

std::string straggler_text(const StragglerScenario& scenario, const Terminal& terminal) {
  const StragglerReport& report = scenario.report;
  std::string out =
      styled(scenario.name, Style::Bold, terminal.color) +
      fmt::format(
          ": {}\n  {}, {} of {}, waiting {} before each to represent computation; time to "
          "loss {:.3f}\n\n",
          scenario.meaning, report.model, plural(report.steps, "step"),
          plural(report.workers, "worker"), to_text(report.compute), report.loss);
  out += styled(fmt::format("  {:<18} {:>12} {:>9} {:>6} {:>10} {:>11} {:>10} {:>8}", "strategy",
                            "time to loss", "speed-up", "steps", "all steps", "validation",
                            "staleness", "spread"),
                Style::Dim, terminal.color) +
         "\n";
  for (const StragglerRun& run : report.runs) {
    out += row(report, run);
  }
  return out;
}

std::string straggler_json(const std::vector<StragglerScenario>& scenarios) {
  Json json;
  for (const StragglerScenario& scenario : scenarios) {
    json["scenarios"].push_back(to_json(scenario));
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
