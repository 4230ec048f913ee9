// The key figures of each run.
#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "report/page/panels.h"

namespace trireme::report {
namespace {

/// The last step with a validation loss; nullptr if there is none.
const RecordedStep* last_validation(const RunRecord& run) {
  const RecordedStep* last = nullptr;
  for (const RecordedStep& step : run.steps) {
    last = step.report.validation ? &step : last;
  }
  return last;
}

struct Figure {
  std::string name{};
  std::string note{};
  Cell cell{};
  std::int64_t step = 0;  ///< whose line in metrics.jsonl has the number
};

std::vector<Figure> loss_figures(const RunRecord& run) {
  const RecordedStep& last = run.steps.back();
  std::vector<Figure> figures{
      {.name = "Loss",
       .note = fmt::format("step {}", last.report.step),
       .cell = number_cell("loss", last.report.loss, loss_text(last.report.loss)),
       .step = last.report.step}};
  if (const RecordedStep* validated = last_validation(run)) {
    const double loss = *validated->report.validation;
    figures.push_back({.name = "Validation loss",
                       .note = fmt::format("step {}", validated->report.step),
                       .cell = number_cell("validation_loss", loss, loss_text(loss)),
                       .step = validated->report.step});
  }
  return figures;
}

std::vector<Figure> figures_of(const RunRecord& run) {
  const RecordedStep* median = median_step(run);
  if (median == nullptr) {
    return {};
  }
  std::vector<Figure> figures = loss_figures(run);
  const auto add = [&](std::string name, std::string_view key, double value, std::string text) {
    figures.push_back({.name = std::move(name),
                       .note = "median step",
                       .cell = number_cell(key, value, std::move(text)),
                       .step = median->report.step});
  };
  const std::string per_second = run.unit + "_per_second";
  add(run.unit == "tokens" ? "Tokens per second" : "Examples per second", per_second,
      median->units_per_second, rate_text(median->units_per_second));
  add("Step time", "seconds", median->report.step_time.count, to_text(median->report.step_time));
  add("MFU", "mfu", median->mfu, share_text(median->mfu));
  add("HFU", "hfu", median->hfu, share_text(median->hfu));
  return figures;
}

Element draw_figures(std::size_t number, const RunRecord& run) {
  const std::vector<Figure> figures = figures_of(run);
  if (figures.empty()) {
    return not_recorded(kNoSteps);
  }
  Element list = html("dl", "figures");
  list.set("data-source", "metrics.jsonl").set("data-run", std::to_string(number));
  for (const Figure& figure : figures) {
    Element value = html("dd", "value", figure.cell.text);
    value.set("data-step", std::to_string(figure.step)).set("data-key", figure.cell.key);
    value.set("data-value", fmt::format("{}", figure.cell.value));
    list.add(Element("div")
                 .add(html("dt", {}, figure.name))
                 .add(value)
                 .add(html("dd", "note", figure.note)));
  }
  return list;
}

}  // namespace

std::string name_of(const RunRecord& run) {
  const std::filesystem::path path = std::filesystem::path(run.folder).lexically_normal();
  const std::filesystem::path last = path.has_filename() ? path : path.parent_path();
  return last.filename().string();
}

std::string color_of(std::size_t run) {
  constexpr std::size_t kColors = 6;
  return fmt::format("c{}", run % kColors + 1);
}

const RecordedStep* median_step(const RunRecord& run) {
  if (run.steps.empty()) {
    return nullptr;
  }
  std::vector<const RecordedStep*> steps;
  for (const RecordedStep& step : run.steps) {
    steps.push_back(&step);
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle, {},
                           [](const RecordedStep* step) { return step->report.step_time.count; });
  return *middle;
}

void add_each(Element& panel, Runs runs,
              const std::function<Element(std::size_t, const RunRecord&)>& draw) {
  if (runs.size() == 1) {
    panel.add(draw(0, runs[0]));
    return;
  }
  Element all = html("div", "runs");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Element one = html("div", "run");
    one.add(html("h3", color_of(i), name_of(runs[i])));
    all.add(one.add(draw(i, runs[i])));
  }
  panel.add(all);
}

Element overview_panel(Runs runs) {
  Element element = panel({.id = "overview", .title = "Key figures", .about = {}, .wide = true});
  add_each(element, runs, draw_figures);
  return element;
}

}  // namespace trireme::report
