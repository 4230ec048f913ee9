// What changes from step to step: loss, throughput, MFU and HFU.
#include <algorithm>

#include <fmt/format.h>

#include "report/page/chart.h"
#include "report/page/panels.h"

namespace trireme::report {
namespace {

/// Tables of longer runs show some of their steps.
constexpr std::size_t kMostRows = 200;

using Value = std::optional<double> (*)(const RecordedStep&);

/// A column of metrics.jsonl.
struct StepColumn {
  std::string key{};
  std::string heading{};
  Value value = nullptr;
  std::string (*text)(double) = nullptr;
};

std::vector<svg::Point> points_of(const RunRecord& run, Value value) {
  std::vector<svg::Point> points;
  for (const RecordedStep& step : run.steps) {
    if (const std::optional<double> y = value(step)) {
      points.push_back({static_cast<double>(step.report.step), *y});
    }
  }
  return points;
}

Row row_of(const RecordedStep& step, const std::vector<StepColumn>& columns) {
  Row row{.cells = {text_cell(std::to_string(step.report.step))},
          .attributes = {{"data-step", std::to_string(step.report.step)}}};
  for (const StepColumn& column : columns) {
    const std::optional<double> value = column.value(step);
    row.cells.push_back(value ? number_cell(column.key, *value, column.text(*value))
                              : text_cell(""));
  }
  return row;
}

/// The first and the last step, and every one in between that is a multiple of `each` or was validated.
bool is_shown(const RunRecord& run, const RecordedStep& step, std::size_t each) {
  return &step == &run.steps.front() || &step == &run.steps.back() || step.report.validation ||
         static_cast<std::size_t>(step.report.step) % each == 0;
}

Element table_of(std::size_t number, const RunRecord& run, const std::string& what,
                 const std::vector<StepColumn>& columns) {
  Table table{.caption = fmt::format("{} of {} by step", what, name_of(run)),
              .headings = {"step"},
              .source = "metrics.jsonl",
              .run = number};
  for (const StepColumn& column : columns) {
    table.headings.push_back(column.heading);
  }
  const std::size_t each = (run.steps.size() + kMostRows - 1) / kMostRows;
  for (const RecordedStep& step : run.steps) {
    if (is_shown(run, step, each)) {
      table.rows.push_back(row_of(step, columns));
    }
  }
  const std::string some =
      each > 1 ? fmt::format(" (one in {} of {} steps)", each, run.steps.size()) : "";
  return folded(fmt::format("{} as numbers: {}{}", what, name_of(run), some), table);
}

bool has_steps(Runs runs) {
  return std::ranges::any_of(runs, [](const RunRecord& run) { return !run.steps.empty(); });
}

std::string series_name(Runs runs, std::size_t run, std::string_view what) {
  return runs.size() == 1 ? std::string(what) : fmt::format("{}, {}", name_of(runs[run]), what);
}

/// The description of a chart for screen readers.
std::string description_of(const LineChart& chart) {
  std::string text;
  for (const ChartSeries& series : chart.series) {
    text += fmt::format("{}{}: {} at step {:.0f}, {} at step {:.0f}", text.empty() ? "" : "; ",
                        series.name, chart.y_text(series.points.front().y), series.points.front().x,
                        chart.y_text(series.points.back().y), series.points.back().x);
  }
  return text + ".";
}

/// The chart with its legend, then a table for each run.
void add_curves(Element& panel, Runs runs, LineChart chart, const std::string& what,
                const std::vector<StepColumn>& columns) {
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.points.empty(); });
  chart.description = description_of(chart);
  if (chart.series.size() > 1) {
    std::vector<LegendEntry> entries;
    for (const ChartSeries& series : chart.series) {
      entries.push_back({series.color, series.name});
    }
    panel.add(legend(entries));
  }
  panel.add(draw(chart));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].steps.empty()) {
      panel.add(table_of(i, runs[i], what, columns));
    }
  }
}

std::optional<double> loss_of(const RecordedStep& step) {
  return step.report.loss;
}
std::optional<double> validation_of(const RecordedStep& step) {
  return step.report.validation;
}
std::optional<double> gradient_of(const RecordedStep& step) {
  return step.report.gradient_norm;
}
std::optional<double> rate_of(const RecordedStep& step) {
  return step.report.rate;
}
std::optional<double> speed_of(const RecordedStep& step) {
  return step.units_per_second;
}
std::optional<double> seconds_of(const RecordedStep& step) {
  return step.report.step_time.count;
}
std::optional<double> mfu_of(const RecordedStep& step) {
  return step.mfu;
}
std::optional<double> hfu_of(const RecordedStep& step) {
  return step.hfu;
}

std::string small_text(double value) {
  return fmt::format("{:.3g}", value);
}
std::string tick_text(double value) {
  return fmt::format("{:g}", value);
}
std::string share_tick(double value) {
  return fmt::format("{:g} %", 100 * value);
}
std::string rate_tick(double value) {
  return value >= 1e6   ? fmt::format("{:g} M", value / 1e6)
         : value >= 1e3 ? fmt::format("{:g} k", value / 1e3)
                        : fmt::format("{:g}", value);
}

bool exceeds_peak(const RunRecord& run) {
  return std::ranges::any_of(run.steps, [](const RecordedStep& step) { return step.hfu > 1; });
}

/// The color of a run's second curve: with one run, the second color.
std::string second_color(Runs runs, std::size_t run) {
  return color_of(runs.size() == 1 ? 1 : run);
}

}  // namespace

Element loss_panel(Runs runs) {
  Element element = panel({.id = "loss",
                           .title = "Loss",
                           .about = "Mean cross-entropy of each step's batch, and on validation "
                                    "data where it was measured."});
  if (!has_steps(runs)) {
    return element.add(not_recorded(kNoSteps));
  }
  LineChart chart{.id = "loss-chart", .y_text = tick_text};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back(
        {series_name(runs, i, "training"), color_of(i), points_of(runs[i], loss_of)});
    chart.series.push_back({series_name(runs, i, "validation (dashed)"), second_color(runs, i),
                            points_of(runs[i], validation_of), true});
  }
  const std::optional<RunFacts>& facts = runs[0].facts;
  if (runs.size() == 1 && facts && facts->bounds) {
    chart.marks.push_back({"floor", facts->bounds->floor});
  }
  add_curves(element, runs, std::move(chart), "Loss",
             {{"loss", "loss", loss_of, loss_text},
              {"validation_loss", "validation", validation_of, loss_text},
              {"gradient_norm", "gradient norm", gradient_of, small_text},
              {"learning_rate", "learning rate", rate_of, small_text}});
  if (runs.size() == 1 && facts && facts->bounds) {
    element.add(html("p", "about",
                     fmt::format("The floor, {}, is {}.", loss_text(facts->bounds->floor),
                                 facts->bounds->floor_is)));
  }
  return element;
}

Element throughput_panel(Runs runs) {
  const std::string& unit = runs[0].unit;
  const std::string title = unit == "tokens" ? "Throughput" : "Throughput in examples";
  Element element = panel({.id = "throughput",
                           .title = title,
                           .about = unit == "tokens" ? "Tokens trained on per second, step by step."
                                                     : "Examples per second, step by step."});
  if (!has_steps(runs)) {
    return element.add(not_recorded(kNoSteps));
  }
  LineChart chart{.id = "throughput-chart", .y_text = rate_tick, .from_zero = true};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back(
        {series_name(runs, i, unit + " per second"), color_of(i), points_of(runs[i], speed_of)});
  }
  add_curves(element, runs, std::move(chart), "Throughput",
             {{unit + "_per_second", unit + " per second", speed_of, rate_text},
              {"seconds", "step time", seconds_of, seconds_text}});
  return element;
}

Element utilization_panel(Runs runs) {
  Element element = panel({.id = "utilization",
                           .title = "Utilization",
                           .about = "Matrix products as a share of what the hardware can do: MFU "
                                    "counts those of the model, HFU all that were executed.",
                           .wide = runs.size() > 1});
  if (!has_steps(runs)) {
    return element.add(not_recorded(kNoSteps));
  }
  LineChart chart{.id = "utilization-chart", .y_text = share_tick, .from_zero = true};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs.size() == 1) {
      chart.series.push_back(
          {series_name(runs, i, "HFU"), second_color(runs, i), points_of(runs[i], hfu_of), false});
    }
    chart.series.push_back({series_name(runs, i, "MFU"), color_of(i), points_of(runs[i], mfu_of)});
  }
  add_curves(element, runs, std::move(chart), "Utilization",
             {{"mfu", "MFU", mfu_of, share_text}, {"hfu", "HFU", hfu_of, share_text}});
  if (std::ranges::any_of(runs, exceeds_peak)) {
    element.add(html("p", "about",
                     "More than 100 %: the machine was busy, or ranks shared cores, when the run "
                     "measured its peak, so that peak is too low."));
  }
  return element;
}

}  // namespace trireme::report
