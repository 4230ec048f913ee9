#include "report/validation_text.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {
namespace {

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string summaries(const std::string& title, const std::vector<ErrorSummary>& list,
                      const Terminal& terminal) {
  constexpr std::size_t kName = 64;
  std::string text =
      styled(fmt::format("{:<{}}  {:>5}  {:>7}  {:>8}", title, kName, "runs", "mean %", "median %"),
             Style::Bold, terminal.color) +
      "\n";
  for (const ErrorSummary& s : list) {
    text += fmt::format("{:<{}}  {:>5}  {:>7.1f}  {:>8.1f}\n", shortened(s.name, kName), kName,
                        s.runs, s.mean, s.median);
  }
  return text + "\n";
}

std::string skipped_text(const MeasuredRuns& runs) {
  std::map<std::string, int> reasons;
  for (const SkippedRow& row : runs.skipped) {
    ++reasons[row.reason];
  }
  std::string text =
      fmt::format("skipped {}\n", plural(static_cast<std::int64_t>(runs.skipped.size()), "row"));
  for (const auto& [reason, count] : reasons) {
    text += fmt::format("  {:>4}  {}\n", count, reason);
  }
  return text;
}

std::string how_text(const ValidationOptions& how) {
  if (how.share <= 0) {
    return "no run was used for calibration: the shares are those of the cluster presets";
  }
  return fmt::format(
      "calibrated on {} of each source's runs, chosen at random; errors are of the rest, "
      "over {} (seed {})",
      percent(how.share), plural(how.draws, "draw"), how.seed);
}

}  // namespace

std::string validation_text(const MeasuredRuns& runs, const Validation& v,
                            const ValidationTextOptions& options) {
  std::string text = fmt::format(
      "{}: the predicted time of a step is off by {:.1f} % on average, {:.1f} % in the "
      "median\n{}\n\n",
      plural(v.all.runs, "run"), v.all.mean, v.all.median, how_text(options.how));
  text += summaries("source", v.by_source, options.terminal);
  text += summaries("runs with", v.by_feature, options.terminal);
  text += styled("worst predictions", Style::Bold, options.terminal.color) + "\n";
  const auto count = std::min(v.worst.size(), static_cast<std::size_t>(options.worst));
  for (std::size_t i = 0; i < count; ++i) {
    const RunError& e = v.worst[i];
    text += fmt::format("  {:>+6.1f} %  line {:<4} {} instead of {}: {}\n", e.percent, e.run->line,
                        to_text(Seconds{e.seconds}), to_text(Seconds{e.run->seconds}),
                        e.run->describe());
  }
  if (!v.regrets.empty()) {
    text += fmt::format(
        "\nregret: the layout predicted to be fastest takes {:.1f} % longer than the fastest "
        "measured one on "
        "average, {:.1f} % at worst ({})\n",
        v.mean_regret, v.worst_regret,
        plural(static_cast<std::int64_t>(v.regrets.size()), "choice"));
  }
  for (const AccountingSummary& a : v.accounting) {
    text += fmt::format("\naccounting: {}: by {}, {} agree within {:.2f} {}\n",
                        shortened(a.source, 48), to_text(a.convention), plural(a.runs, "run"),
                        a.worst, a.compared == Accounting::Compared::Utilization ? "points" : "%");
  }
  return runs.skipped.empty() ? text : text + "\n" + skipped_text(runs);
}

std::string validation_json(const MeasuredRuns& runs, const Validation& v) {
  const auto list = [](const std::vector<ErrorSummary>& summaries) {
    Json json = Json::array();
    for (const ErrorSummary& s : summaries) {
      json.push_back({{"name", s.name},
                      {"rows", s.runs},
                      {"mape_percent", s.mean},
                      {"median_percent", s.median}});
    }
    return json;
  };
  Json json{{"rows", v.all.runs},
            {"mape_percent", v.all.mean},
            {"median_percent", v.all.median},
            {"by_source", list(v.by_source)},
            {"by_feature", list(v.by_feature)},
            {"regret_percent", v.mean_regret},
            {"worst_regret_percent", v.worst_regret}};
  json["accounting"] = Json::array();
  for (const AccountingSummary& a : v.accounting) {
    json["accounting"].push_back({{"source", a.source},
                                  {"formula", to_text(a.convention)},
                                  {"compared", to_text(a.compared)},
                                  {"rows", a.runs},
                                  {"worst_difference", a.worst}});
  }
  json["errors"] = Json::array();
  for (const RunError& e : v.worst) {
    json["errors"].push_back({{"line", e.run->line},
                              {"source", e.run->source},
                              {"run", e.run->describe()},
                              {"measured_seconds", e.run->seconds},
                              {"predicted_seconds", e.seconds},
                              {"error_percent", e.percent}});
  }
  json["skipped"] = Json::array();
  for (const SkippedRow& row : runs.skipped) {
    json["skipped"].push_back({{"line", row.line}, {"source", row.source}, {"reason", row.reason}});
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
