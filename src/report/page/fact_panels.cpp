// Facts about a run: predictions, plan, settings, environment.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "report/page/panels.h"
#include "report/page/traced_step.h"

namespace trireme::report {
namespace {

constexpr std::string_view kNoFacts =
    "Not recorded: this run is from a version that did not write facts.json.";

// Predictions.

Row prediction_row(std::string_view key, std::string_view name, double predicted,
                   std::optional<double> measured, std::string (*text)(double)) {
  Row row{.cells = {text_cell(std::string(name)),
                    number_cell(fmt::format("predicted_{}", key), predicted, text(predicted))}};
  row.cells.push_back(measured ? number_cell(key, *measured, text(*measured)) : text_cell(""));
  return row;
}

/// How the ranks spent the traced step, on average, as shares of it.
struct MeasuredShares {
  double kernels = 0;
  double waiting = 0;
};
std::optional<MeasuredShares> measured_shares(const RunRecord& run) {
  const RecordedStep* step = run.traced_step();
  if (step == nullptr) {
    return std::nullopt;
  }
  const double whole = step->report.step_time.count;
  const RankTimes mean = mean_of(times_of(traced_ranks(*run.trace), {whole}));
  return MeasuredShares{.kernels = mean.kernels() / whole, .waiting = mean.waiting() / whole};
}

Element draw_prediction(std::size_t number, const RunRecord& run) {
  if (!run.facts) {
    return not_recorded(kNoFacts);
  }
  if (!run.facts->predicted) {
    return not_recorded(fmt::format("Not predicted: {}.", run.facts->not_predicted));
  }
  const StepPrediction& p = *run.facts->predicted;
  const RecordedStep* median = median_step(run);
  const std::optional<MeasuredShares> shares = measured_shares(run);
  const auto maybe = [](bool holds, double value) {
    return holds ? std::optional(value) : std::nullopt;
  };
  Table table{.caption = "Predicted before the first step, and measured",
              .headings = {"", "predicted", "measured"},
              .source = "facts.json",
              .run = number};
  const bool has_steps = median != nullptr;
  const double waiting = shares ? shares->waiting : 0;
  const double kernels = shares ? shares->kernels : 0;
  table.rows = {prediction_row("seconds", "Step time (median)", p.step.count,
                               maybe(has_steps, has_steps ? median->report.step_time.count : 0),
                               seconds_text),
                prediction_row("mfu", "MFU", mfu(*run.facts, p.step),
                               maybe(has_steps, has_steps ? median->mfu : 0), share_text),
                prediction_row("kernels", "In kernels", p.compute,
                               maybe(shares.has_value(), kernels), share_text),
                prediction_row("waiting", "Waiting for communication or ranks", p.exposed + p.idle,
                               maybe(shares.has_value(), waiting), share_text)};
  return draw(table);
}

// Tables of fields with a column for each run.

using Fields = std::vector<RecordedField>;

std::string value_of(const Fields& fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name, &RecordedField::name);
  return found != fields.end() ? found->value : "";
}

std::vector<std::string> names_of(const std::vector<Fields>& all) {
  std::vector<std::string> names;
  for (const Fields& fields : all) {
    for (const RecordedField& field : fields) {
      if (std::ranges::find(names, field.name) == names.end()) {
        names.push_back(field.name);
      }
    }
  }
  return names;
}

/// A row for each name. Rows in which runs differ are marked, by a word as well.
Element fields_table(Runs runs, const std::string& caption, std::string_view source,
                     const std::vector<Fields>& all) {
  Table table{.caption = caption, .headings = {"name"}, .source = source};
  for (const RunRecord& run : runs) {
    table.headings.push_back(runs.size() == 1 ? "value" : name_of(run));
  }
  for (const std::string& name : names_of(all)) {
    std::set<std::string> values;
    Row row{.cells = {text_cell(name)}, .attributes = {{"data-name", name}}};
    for (const Fields& fields : all) {
      row.cells.push_back(text_cell(value_of(fields, name)));
      values.insert(row.cells.back().text);
    }
    if (values.size() > 1) {
      row.css_class = "differs";
      row.cells.front().text += " (differs)";
    }
    table.rows.push_back(std::move(row));
  }
  return draw(table);
}

Fields environment_of(const RunRecord& run) {
  Fields fields;
  if (run.facts) {
    const RunFacts& f = *run.facts;
    fields = {{"model", f.model},
              {"parameters", std::to_string(f.parameters)},
              {"data", f.data},
              {"device", f.device},
              {"ranks", f.ranks.empty() ? "one device" : f.ranks},
              {"peak for MFU", fmt::format("{:.4g} FLOP/s", f.peak_flops)},
              {"large matrix product", fmt::format("{:.4g} FLOP/s", f.measured_flops)},
              {fmt::format("memory of rank {}", f.memory_rank), to_text(f.memory)}};
  }
  if (run.environment) {
    const RunEnvironment& e = *run.environment;
    fields.insert(fields.end(), {{"cores", std::to_string(e.cores)},
                                 {"system", e.system},
                                 {"Trireme", e.version},
                                 {"started", e.started}});
  }
  return fields;
}

/// Where each rank is in the mesh.
Element mesh_table(std::size_t number, const Mesh& mesh) {
  Table table{.caption = "Ranks in the mesh " + to_text(mesh),
              .headings = {"rank"},
              .source = "plan.json",
              .run = number};
  for (const MeshAxis& axis : mesh.axes()) {
    table.headings.push_back(axis.name);
  }
  for (int rank = 0; rank < mesh.devices(); ++rank) {
    Row row{.cells = {text_cell(std::to_string(rank))}};
    const std::vector<int> at = mesh.coordinates(rank);
    for (std::size_t i = 0; i < at.size(); ++i) {
      row.cells.push_back(number_cell(mesh.axes()[i].name, at[i], std::to_string(at[i])));
    }
    table.rows.push_back(std::move(row));
  }
  return folded("Ranks in the mesh", table);
}

}  // namespace

Element prediction_panel(Runs runs) {
  Element element = panel({.id = "predictions",
                           .title = "Predicted and measured",
                           .about = "A run predicts its step from what trireme probe has measured "
                                    "of this host. Shares are those of the traced step.",
                           .wide = runs.size() > 1});
  add_each(element, runs, draw_prediction);
  return element;
}

Element plan_panel(Runs runs) {
  Element element = panel({.id = "plan", .title = "Plan", .about = {}});
  std::vector<Fields> all;
  for (const RunRecord& run : runs) {
    all.push_back(run.plan_fields);
  }
  if (names_of(all).empty()) {
    return element.add(not_recorded("Not recorded: there is no plan.json."));
  }
  element.add(fields_table(runs, "The plan of each run", "plan.json", all));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].plan.mesh.devices() > 1) {
      element.add(mesh_table(i, runs[i].plan.mesh));
    }
  }
  return element;
}

Element settings_panel(Runs runs) {
  Element element = panel({.id = "settings", .title = "Settings", .about = {}});
  std::vector<Fields> all;
  for (const RunRecord& run : runs) {
    all.push_back(run.settings);
  }
  return element.add(fields_table(runs, "The settings of each run", "settings.json", all));
}

Element environment_panel(Runs runs) {
  Element element = panel({.id = "environment", .title = "Environment", .about = {}});
  std::vector<Fields> all;
  for (const RunRecord& run : runs) {
    all.push_back(environment_of(run));
  }
  if (names_of(all).empty()) {
    return element.add(not_recorded(kNoFacts));
  }
  element.add(fields_table(runs, "Where and on what each run ran", "facts.json", all));
  for (const RunRecord& run : runs) {
    for (const std::string& note : run.facts ? run.facts->notes : std::vector<std::string>()) {
      element.add(html("p", "about", "Note: " + note));
    }
  }
  return element;
}

}  // namespace trireme::report
