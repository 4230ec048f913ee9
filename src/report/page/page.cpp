#include "report/page/page.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "report/page/panels.h"
#include "report/page/style.h"

namespace trireme::report {
namespace {

struct PanelRow {
  std::string_view id;
  std::string_view title;  ///< in the table of contents
  Element (*draw)(Runs);
};

constexpr std::array<PanelRow, 13> kPanels{{{"overview", "Key figures", overview_panel},
                                            {"loss", "Loss", loss_panel},
                                            {"throughput", "Throughput", throughput_panel},
                                            {"utilization", "Utilization", utilization_panel},
                                            {"waterfall", "Where the rest went", waterfall_panel},
                                            {"memory", "Memory", memory_panel},
                                            {"timeline", "Timeline", timeline_panel},
                                            {"idle", "Idle time", idle_panel},
                                            {"collectives", "Collectives", collectives_panel},
                                            {"predictions", "Predictions", prediction_panel},
                                            {"plan", "Plan", plan_panel},
                                            {"settings", "Settings", settings_panel},
                                            {"environment", "Environment", environment_panel}}};

std::string title_of(Runs runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    names.push_back(name_of(run));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "gpt-mini on 4 ranks: data=2,tensor=2. 300 of 750 steps."
std::string state_of(const RunRecord& run) {
  const std::int64_t last = run.steps.empty() ? 0 : run.steps.back().report.step;
  std::string text;
  if (run.facts) {
    const RunFacts& f = *run.facts;
    text = fmt::format("{} on {}, {}. Step {} of {}", f.model,
                       f.ranks.empty() ? "one device" : f.ranks, f.device, last, f.steps);
  } else {
    text = fmt::format("Step {}", last);
  }
  return text + (run.summary ? run.summary->interrupted ? ", interrupted." : ", complete." : ".");
}

Element contents() {
  Element list("ul");
  for (const PanelRow& row : kPanels) {
    Element link("a");
    link.set("href", fmt::format("#{}", row.id)).add_text(row.title);
    list.add(Element("li").add(link));
  }
  Element nav("nav");
  return nav.set("aria-label", "Panels").add(list);
}

Element header_of(Runs runs, bool live) {
  Element header("header");
  header.add(html("h1", {}, title_of(runs)));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string name = runs.size() == 1 ? "" : name_of(runs[i]) + ": ";
    header.add(html("p", "state", name + state_of(runs[i])).set("id", fmt::format("state-{}", i)));
    for (const std::string& problem : runs[i].problems) {
      header.add(html("p", "missing", fmt::format("Cannot read {}", problem)));
    }
  }
  if (live) {
    header.add(html("p", {}, "Live").set("id", "status").set("role", "status"));
  }
  return header.add(contents());
}

Element main_of(Runs runs) {
  Element main("main");
  main.set("id", "panels");
  for (const PanelRow& row : kPanels) {
    main.add(row.draw(runs));
  }
  return main;
}

/// A picture in a tab, instead of a request for one.
constexpr std::string_view kIcon =
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath "
    "d='M2 3h12M2 8h9M2 13h6' stroke='%231f5f8b' stroke-width='3'/%3E%3C/svg%3E";

}  // namespace

std::string run_page(std::span<const RunRecord> runs, const PageOptions& options) {
  TRIREME_CHECK(!runs.empty(), "a report needs a run");
  const std::string script =
      options.live ? fmt::format("<script>{}</script>", live_script()) : std::string();
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "{}\n<link rel=\"icon\" href=\"{}\">\n<style>{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#panels\">Skip to the panels</a>\n{}\n{}\n"
      "<footer><p>Made by trireme report from the files of the run. It loads nothing.</p></footer>"
      "\n{}</body>\n</html>\n",
      html("title", {}, title_of(runs) + " · Trireme").text(), kIcon, page_style(),
      header_of(runs, options.live).text(), main_of(runs).text(), script);
}

}  // namespace trireme::report
