// Reads the folder of a run.
#include "trireme/run_record.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>

#include <fmt/format.h>

#include "base/json.h"
#include "trireme/files.h"
#include "trireme/message.h"

namespace trireme {
namespace {

std::optional<double> optional_number(const Json& json, std::string_view name) {
  const Json* found = json.find(name);
  return found != nullptr && found->is_number() ? std::optional(found->get<double>())
                                                : std::nullopt;
}

std::int64_t integer_or_zero(const Json& json, std::string_view name) {
  const Json* found = json.find(name);
  return found != nullptr ? found->get<std::int64_t>() : 0;
}

std::optional<SyncState> sync_of(const Json& json) {
  if (!json.contains("staleness")) {
    return std::nullopt;
  }
  SyncState sync;
  sync.staleness = json.at("staleness").get<std::int64_t>();
  sync.spread = json.at("spread").get<double>();
  if (json.contains("slowest_clock")) {
    sync.clocks = SyncClocks{.slowest = json.at("slowest_clock").get<std::int64_t>(),
                             .fastest = json.at("fastest_clock").get<std::int64_t>()};
  }
  return sync;
}

/// The name of the member with the suffix "_per_second", without the suffix; "" if there is none.
std::string unit_of(const Json& json) {
  constexpr std::string_view kEnd = "_per_second";
  for (const auto& [name, value] : json.items()) {
    if (name.ends_with(kEnd)) {
      return name.substr(0, name.size() - kEnd.size());
    }
  }
  return {};
}

RecordedStep step_of(const Json& json, const std::string& unit) {
  RecordedStep step;
  step.report.step = json.at("step").get<std::int64_t>();
  step.report.loss = json.at("loss").get<double>();
  step.report.gradient_norm = json.at("gradient_norm").get<double>();
  step.report.rate = json.at("learning_rate").get<double>();
  step.report.step_time = {json.at("seconds").get<double>()};
  step.report.loss_scale = optional_number(json, "loss_scale");
  step.report.validation = optional_number(json, "validation_loss");
  step.report.sync = sync_of(json);
  step.units_per_second = json.at(unit + "_per_second").get<double>();
  step.mfu = json.at("mfu").get<double>();
  step.hfu = json.at("hfu").get<double>();
  return step;
}

/// A run in progress may have written half of the last line, which is skipped.
void read_steps(const std::string& path, RunRecord& run) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const Json json = Json::parse(line);
    run.unit = unit_of(json);
    run.steps.push_back(step_of(json, run.unit));
  }
}

RunSummary summary_of(const Json& json, const std::string& unit) {
  RunSummary s;
  s.step = json.at("step").get<std::int64_t>();
  s.loss = optional_number(json, "final_loss");
  s.validation = optional_number(json, "validation_loss");
  s.time = {json.at("seconds").get<double>()};
  s.step_time = {optional_number(json, "step_seconds").value_or(0)};
  s.units_per_second = optional_number(json, unit + "_per_second").value_or(0);
  s.interrupted = json.at("interrupted").get<bool>();
  s.overflows = integer_or_zero(json, "overflows");
  return s;
}

std::vector<RecordedField> fields_of(const std::string& path) {
  std::vector<RecordedField> fields;
  const Json json = parse_json(read_file(path), path);
  for (const auto& [name, value] : json.items()) {
    fields.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return fields;
}

/// Calls `read` with the path of a file, if it exists; records errors.
void read_part(RunRecord& run, const std::string& name,
               const std::function<void(const std::string&)>& read) {
  const std::string path = run.folder + "/" + name;
  if (!std::filesystem::exists(path)) {
    return;
  }
  try {
    read(path);
  } catch (const Error& error) {
    run.problems.push_back(fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace

const RecordedStep* RunRecord::traced_step() const {
  if (!trace) {
    return nullptr;
  }
  const auto detail = std::ranges::find(trace->details, "step", &TraceArg::key);
  const auto* step =
      detail != trace->details.end() ? std::get_if<std::int64_t>(&detail->value) : nullptr;
  if (step == nullptr) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(
      steps, [&](const RecordedStep& one) { return one.report.step == *step; });
  return found != steps.end() ? &*found : nullptr;
}

RunRecord read_run(const std::string& folder) {
  RunRecord run;
  run.folder = folder;
  const std::string settings = folder + "/settings.json";
  require(std::filesystem::exists(settings),
          fmt::format("'{}' is not the folder of a run: it has no settings.json", folder));
  run.settings = fields_of(settings);
  read_part(run, "plan.json", [&](const std::string& path) {
    run.plan_fields = fields_of(path);
    run.plan = load_plan(folder);
  });
  read_part(run, "metrics.jsonl", [&](const std::string& path) { read_steps(path, run); });
  read_part(run, "facts.json", [&](const std::string& path) {
    RecordedFacts recorded = parse_facts(read_file(path), path);
    run.facts = std::move(recorded.facts);
    run.environment = std::move(recorded.environment);
  });
  read_part(run, "summary.json", [&](const std::string& path) {
    run.summary = summary_of(parse_json(read_file(path), path), run.unit);
  });
  read_part(run, "trace.json",
            [&](const std::string& path) { run.trace = parse_trace(read_file(path)); });
  return run;
}

}  // namespace trireme
