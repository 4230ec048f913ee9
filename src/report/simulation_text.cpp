#include "report/simulation_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using simulate::RankReport;
using simulate::SimulationReport;
using simulate::StrategyOptions;
using simulate::StrategyResult;
using simulate::TimeVariation;

std::string variation_text(const TimeVariation& v) {
  std::string text;
  if (v.jitter != simulate::Jitter::None) {
    text += fmt::format(", {} jitter", to_text(v.jitter));
  }
  if (v.slow_workers > 0) {
    text += fmt::format(", {:g} times as long on {}", v.slow_factor,
                        plural(v.slow_workers, "slow worker"));
  }
  if (v.transient_chance > 0) {
    text += fmt::format(", {:g} times as long in {} of the cases", v.transient_factor,
                        percent(v.transient_chance));
  }
  return text;
}

std::string strategy_name(const StrategyResult& result, const StrategyOptions& options) {
  const bool bounded =
      result.strategy == simulate::Strategy::Ssp || result.strategy == simulate::Strategy::Essp;
  return bounded ? fmt::format("{} (s = {})", to_text(result.strategy), options.staleness)
                 : std::string(to_text(result.strategy));
}

Json to_json(const StrategyResult& result) {
  Json json;
  json["strategy"] = to_text(result.strategy);
  json["seconds"] = result.time.count;
  json["iterations_per_second"] = result.throughput;
  json["of_ideal"] = result.of_ideal;
  json["utilization"] = result.utilization;
  json["drift"] = result.drift;
  json["mean_staleness"] = result.mean_staleness();
  json["staleness"] = result.staleness;
  return json;
}

Json to_json(const RankReport& rank) {
  Json json;
  json["compute_seconds"] = rank.compute.count;
  json["exposed_seconds"] = rank.exposed.count;
  json["idle_seconds"] = rank.idle.count;
  json["flops"] = rank.flops;
  json["bytes_sent"] = rank.bytes_sent;
  return json;
}

double total_bytes(const SimulationReport& report) {
  double sum = 0;
  for (const RankReport& rank : report.ranks) {
    sum += rank.bytes_sent;
  }
  return sum;
}

double mfu(const SimulatedStep& step, const SimulationReport& report) {
  return report.step.count > 0 ? step.model_flops / (step.peak * report.step.count) : 0;
}

std::string rank_row(std::size_t number, const RankReport& rank, double step) {
  const auto share = [&](Seconds part) { return percent(step > 0 ? part.count / step : 0); };
  return fmt::format("  {:>6} {:>10} {:>10} {:>10} {:>12}\n", number, share(rank.compute),
                     share(rank.exposed), share(rank.idle), bytes_text(rank.bytes_sent));
}

}  // namespace

std::string strategies_text(const StrategyOptions& options,
                            const std::vector<StrategyResult>& results, const Terminal& terminal) {
  std::string out = styled("synchronization", Style::Bold, terminal.color) +
                    fmt::format(" of {}, {} each on average\n  computing takes {}{}\n\n",
                                plural(options.workers, "worker"), plural(options.steps, "step"),
                                to_text(options.compute), variation_text(options.variation));
  out += styled(fmt::format("  {:<14} {:>12} {:>9} {:>10} {:>7} {:>10} {:>7}", "strategy",
                            "iterations/s", "of ideal", "computing", "drift", "staleness", "95 %"),
                Style::Dim, terminal.color) +
         "\n";
  for (const StrategyResult& result : results) {
    out += fmt::format("  {:<14} {:>12.4g} {:>9} {:>10} {:>7} {:>10.2f} {:>7}\n",
                       strategy_name(result, options), result.throughput, percent(result.of_ideal),
                       percent(result.utilization), result.drift, result.mean_staleness(),
                       result.staleness_quantile(0.95));
  }
  return out +
         "\nOf ideal: relative to workers that never wait or communicate. Staleness: how many\n"
         "iterations ahead of the slowest they start, on average and in 95 % of the cases; drift:\n"
         "at most.\n";
}

std::string strategies_json(const StrategyOptions& options,
                            const std::vector<StrategyResult>& results) {
  const TimeVariation& v = options.variation;
  Json json;
  json["workers"] = options.workers;
  json["steps"] = options.steps;
  json["compute_seconds"] = options.compute.count;
  json["jitter"] = to_text(v.jitter);
  json["slow_workers"] = v.slow_workers;
  json["slow_factor"] = v.slow_factor;
  json["transient_chance"] = v.transient_chance;
  json["transient_factor"] = v.transient_factor;
  json["ssp_staleness"] = options.staleness;
  json["seed"] = v.seed;
  json["strategies"] = Json::array();
  for (const StrategyResult& result : results) {
    json["strategies"].push_back(to_json(result));
  }
  return json.dump() + "\n";
}

std::string simulation_text(const SimulatedStep& step, const SimulationReport& report,
                            const Terminal& terminal) {
  std::string out =
      styled(step.model, Style::Bold, terminal.color) +
      fmt::format(" as {} on {}, {}, simulated\n\n", step.plan.empty() ? "one rank" : step.plan,
                  step.cluster, plural(static_cast<std::int64_t>(report.ranks.size()), "rank"));
  out += summary_line("step", to_text(report.step));
  if (step.peak > 0) {
    out += summary_line(
        "MFU",
        fmt::format("{} of {} per rank", percent(mfu(step, report)),
                    to_text(FlopRate{step.peak / static_cast<double>(report.ranks.size())})));
  }
  out += summary_line("compute", percent(report.share(&RankReport::compute)));
  out += summary_line("exposed", fmt::format("{} waiting for communication",
                                             percent(report.share(&RankReport::exposed))));
  out += summary_line(
      "idle", fmt::format("{} waiting for another rank", percent(report.share(&RankReport::idle))));
  out += summary_line("sent", fmt::format("{} by all ranks", bytes_text(total_bytes(report))));
  out += "\n" +
         styled(fmt::format("  {:>6} {:>10} {:>10} {:>10} {:>12}", "rank", "compute", "exposed",
                            "idle", "sent"),
                Style::Dim, terminal.color) +
         "\n";
  const std::size_t shown = std::min(report.ranks.size(), static_cast<std::size_t>(step.rows));
  for (std::size_t rank = 0; rank < shown; ++rank) {
    out += rank_row(rank, report.ranks[rank], report.step.count);
  }
  if (shown < report.ranks.size()) {
    out += fmt::format("  and {} more\n", report.ranks.size() - shown);
  }
  return out;
}

std::string simulation_json(const SimulatedStep& step, const SimulationReport& report) {
  Json json;
  json["model"] = step.model;
  json["plan"] = step.plan;
  json["cluster"] = step.cluster;
  json["step_seconds"] = report.step.count;
  json["mfu"] = step.peak > 0 ? Json(mfu(step, report)) : Json(nullptr);
  json["compute_share"] = report.share(&RankReport::compute);
  json["exposed_share"] = report.share(&RankReport::exposed);
  json["idle_share"] = report.share(&RankReport::idle);
  json["bytes_sent"] = total_bytes(report);
  json["ranks"] = Json::array();
  for (const RankReport& rank : report.ranks) {
    json["ranks"].push_back(to_json(rank));
  }
  return json.dump() + "\n";
}

}  // namespace trireme::report
