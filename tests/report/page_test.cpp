#include "report/page/page.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/page/chart.h"
#include "report/page/traced_step.h"
#include "report/page_reader.h"

namespace trireme::report {
namespace {

constexpr std::size_t kHeaviest = 3'000'000;

RecordedStep step_of(std::int64_t number) {
  RecordedStep step;
  step.report.step = number;
  step.report.loss = 4.0 / static_cast<double>(number);
  step.report.step_time = {0.5};
  step.units_per_second = 1000;
  step.mfu = 0.25;
  step.hfu = 0.375;
  return step;
}

/// Two ranks, one second: a product, another kernel, a wait for a message, and nothing for 0.125 s.
Trace trace_of_step(std::int64_t step) {
  Trace trace;
  trace.details.push_back({"step", step});
  for (const char* rank : {"rank 0", "rank 1"}) {
    const TrackId compute = trace.add_track(rank, "compute");
    const TrackId waiting = trace.add_track(rank, "waiting");
    const TrackId exchanges = trace.add_track(rank, "exchanges 0");
    trace.add_span({compute, "einsum", "forward", {0}, {0.25}, {{"products", 100.0}}});
    trace.add_span({waiting, "receive", "forward", {0.25}, {0.125}, {}});
    trace.add_span({exchanges, "receive", "forward", {0}, {0.375}, {{"bytes", 64.0}}});
    trace.add_span({compute, "add", "backward", {0.375}, {0.5}, {{"products", 0.0}}});
    trace.counters.push_back({compute, "parameter bytes", {0}, 1000});
    trace.counters.push_back({compute, "activation bytes", {0}, 500});
    trace.counters.push_back({compute, "activation bytes", {0.375}, 2500});
  }
  return trace;
}

RunRecord run_of(std::int64_t steps) {
  RunRecord run;
  run.folder = "runs/small <one>";
  run.settings = {{"batch", "16"}, {"model", "gpt-mini"}};
  for (std::int64_t i = 1; i <= steps; ++i) {
    run.steps.push_back(step_of(i));
  }
  return run;
}

const XmlNode& panel_named(const XmlNode& root, const std::string& id) {
  const auto found = root.find_if(
      [&](const XmlNode& node) { return node.tag == "section" && node.get("id") == id; });
  if (found.size() != 1) {
    throw std::runtime_error(fmt::format("{} panels {}", found.size(), id));
  }
  return *found.front();
}

constexpr std::array kPanels{"overview", "loss",     "throughput", "utilization", "waterfall",
                             "memory",   "timeline", "idle",       "collectives", "predictions",
                             "plan",     "settings", "environment"};

double number_on(const XmlNode& root, const std::string& panel, const std::string& key) {
  const PageNumbers numbers(panel_named(root, panel));
  const auto found = std::ranges::find(numbers.all(), key, &PageNumber::key);
  if (found == numbers.all().end()) {
    throw std::runtime_error(fmt::format("no {} in {}", key, panel));
  }
  return found->value;
}

TEST(RunPage, ListsWhatRunDidNotRecord) {
  const RunRecord run = run_of(0);
  const XmlNode root = panels_of(run_page(std::span(&run, 1)));
  for (const std::string id : kPanels) {
    const std::string text = text_of(panel_named(root, id));
    const bool is_noted = text.find("Not recorded") != std::string::npos ||
                          text.find("No steps yet") != std::string::npos;
    EXPECT_EQ(is_noted, id != "settings") << id << ": " << text;
  }
}

TEST(RunPage, BreaksDownStep) {
  RunRecord run = run_of(4);
  run.steps[2].report.step_time = {1};
  run.trace = trace_of_step(3);
  const XmlNode root = panels_of(run_page(std::span(&run, 1)));
  const auto share = [&](const std::string& key) { return number_on(root, "waterfall", key); };
  EXPECT_EQ(share("messages"), 0.125);
  EXPECT_EQ(share("collectives"), 0);
  EXPECT_EQ(share("outside"), 0.125);
  EXPECT_EQ(share("others"), 0.5);
  EXPECT_EQ(share("repeated"), 0);
  EXPECT_EQ(share("attention"), 0);
  EXPECT_EQ(share("slower"), 0.25 - 0.375);
  EXPECT_EQ(share("hfu"), 0.375);
  EXPECT_EQ(share("recomputed"), 0.125);
  EXPECT_EQ(share("mfu"), 0.25);
  EXPECT_EQ(number_on(root, "idle", "kernels"), 0.75);
  EXPECT_EQ(number_on(root, "collectives", "bytes"), 128);
  EXPECT_EQ(number_on(root, "memory", "total"), 3500);
  EXPECT_EQ(number_on(root, "memory", "time"), 0.375);
}

TEST(RunPage, ShowsPredictionsNextToMeasurements) {
  RunRecord run = run_of(4);
  run.steps[2].report.step_time = {1};
  run.trace = trace_of_step(3);
  run.facts.emplace();
  run.facts->model_flops = 100;
  run.facts->peak_flops = 1000;
  run.facts->predicted =
      StepPrediction{.step = {0.25}, .compute = 0.5, .exposed = 0.125, .idle = 0.25};
  const XmlNode root = panels_of(run_page(std::span(&run, 1)));
  const auto number = [&](const std::string& key) { return number_on(root, "predictions", key); };
  EXPECT_EQ(number("predicted_seconds"), 0.25);
  EXPECT_EQ(number("seconds"), 0.5) << "of the median step";
  EXPECT_EQ(number("predicted_mfu"), 0.4);
  EXPECT_EQ(number("mfu"), 0.25);
  EXPECT_EQ(number("predicted_kernels"), 0.5);
  EXPECT_EQ(number("kernels"), 0.75);
  EXPECT_EQ(number("predicted_waiting"), 0.375);
  EXPECT_EQ(number("waiting"), 0.125);
  run.facts->predicted.reset();
  run.facts->not_predicted = "run 'trireme probe' once";
  const std::string text =
      text_of(panel_named(panels_of(run_page(std::span(&run, 1))), "predictions"));
  EXPECT_NE(text.find("Not predicted: run 'trireme probe' once."), std::string::npos) << text;
}

/// A rank that ends its step after rank 0 is counted until then, so that the parts add up.
TEST(RunPage, PartsOfStepSumToWhole) {
  RunRecord run = run_of(4);
  run.steps[2].report.step_time = {0.5};
  run.trace = trace_of_step(3);
  const XmlNode root = panels_of(run_page(std::span(&run, 1)));
  double sum = number_on(root, "waterfall", "mfu");
  for (const char* part : {"messages", "collectives", "outside", "others", "repeated", "slower",
                           "attention", "recomputed"}) {
    sum += number_on(root, "waterfall", part);
  }
  EXPECT_DOUBLE_EQ(sum, 1);
  EXPECT_EQ(number_on(root, "waterfall", "outside"), 0);
}

TEST(RunPage, ShowsRunsSideBySide) {
  std::vector<RunRecord> runs{run_of(5), run_of(7)};
  runs[1].folder = "runs/other";
  runs[1].settings[0].value = "32";
  const XmlNode root = panels_of(run_page(runs));
  EXPECT_EQ(panel_named(root, "loss")
                .find_if([](const XmlNode& node) { return node.tag == "path"; })
                .size(),
            2U);
  const auto differing = panel_named(root, "settings").with_class("differs");
  ASSERT_EQ(differing.size(), 1U);
  EXPECT_EQ(text_of(*differing.front()), "batch (differs)1632");
  const auto names = root.find_if([](const XmlNode& node) { return node.tag == "h3"; });
  EXPECT_EQ(names.size(), 2U * 7) << "in the panels that have a part for each run";
}

TEST(RunPage, StaysSmallForLongRuns) {
  RunRecord run = run_of(200'000);
  run.trace = trace_of_step(3);
  const TrackId compute{0};
  for (int i = 0; i < 50'000; ++i) {
    const double at = 1 + 1e-4 * i;
    run.trace->add_span({compute, "einsum", i % 2 == 0 ? "forward" : "backward", {at}, {5e-5}, {}});
    run.trace->counters.push_back({compute, "activation bytes", {at}, 1e6 + i});
  }
  const std::string page = run_page(std::span(&run, 1));
  EXPECT_LT(page.size(), kHeaviest);
  EXPECT_EQ(number_on(panels_of(page), "memory", "total"), 1000 + 1e6 + 49'999);
}

TEST(RunPage, IsSelfContainedAndScriptFreeUnlessLive) {
  const RunRecord run = run_of(3);
  const std::string page = run_page(std::span(&run, 1));
  for (const char* loads : {"<script", " src=", "url(", "@import", "href=\"http"}) {
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
  }
  EXPECT_NE(page.find("small &lt;one&gt;"), std::string::npos);
  EXPECT_NE(run_page(std::span(&run, 1), {.live = true}).find("<script"), std::string::npos);
}

/// Every picture has a description, every table a caption, every heading level follows the one above, and what scrolls
/// can have the focus.
TEST(RunPage, IsReadableWithoutMouse) {
  RunRecord run = run_of(4);
  run.trace = trace_of_step(3);
  const XmlNode root = panels_of(run_page(std::span(&run, 1)));
  for (const XmlNode* node : root.find_if([](const XmlNode& n) { return n.tag == "svg"; })) {
    EXPECT_TRUE(node->get("aria-hidden") == "true" || !node->get("aria-label").empty());
  }
  for (const XmlNode* node : root.find_if([](const XmlNode& n) { return n.tag == "table"; })) {
    EXPECT_EQ(node->children.front().tag, "caption");
  }
  for (const XmlNode* node : root.with_class("scroll")) {
    EXPECT_EQ(node->get("tabindex"), "0");
    EXPECT_FALSE(node->get("aria-label").empty());
  }
  for (const XmlNode* node : root.find_if([](const XmlNode& n) { return n.tag == "section"; })) {
    EXPECT_EQ(node->children.front().tag, "h2");
    EXPECT_EQ(node->get("aria-labelledby"), node->children.front().get("id"));
  }
}

TEST(Chart, KeepsExtremesWhenDownsampling) {
  std::vector<svg::Point> points;
  for (int i = 0; i < 100'000; ++i) {
    points.push_back({static_cast<double>(i), i == 77'777 ? 9.0 : i == 5 ? -9.0 : (i % 7) / 7.0});
  }
  const std::vector<svg::Point> kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 202U);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &svg::Point::x));
  EXPECT_TRUE(std::ranges::any_of(kept, [](svg::Point p) { return p.x == 77'777; }));
  EXPECT_TRUE(std::ranges::any_of(kept, [](svg::Point p) { return p.x == 5; }));
}

}  // namespace
}  // namespace trireme::report
