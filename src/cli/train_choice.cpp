#include "cli/train_choice.h"

#include <fmt/format.h>

#include "cli/host_file.h"
#include "cli/measure_host.h"
#include "report/plan_choice_text.h"
#include "trireme/cores.h"
#include "trireme/host_probe.h"
#include "trireme/message.h"
#include "trireme/plan_choice.h"
#include "trireme/sync.h"

namespace trireme::cli {
namespace {

/// The ranks to choose from: those given, or any number that divides the cores.
std::vector<int> rank_counts(const TrainOptions& options) {
  if (options.plan.ranks) {
    return {*options.plan.ranks};
  }
  const int cores = usable_cores();
  std::vector<int> counts;
  for (int ranks = cores; ranks >= 1; --ranks) {
    if (cores % ranks == 0) {
      counts.push_back(ranks);
    }
  }
  return counts;
}

}  // namespace

bool chooses_plan(const TrainOptions& options) {
  const bool all_reduce =
      parsed("--sync", options.run.settings.sync, parse_sync).kind == SyncSpec::Kind::Allreduce;
  require(all_reduce || !options.plan.is_automatic(),
          "--mesh auto chooses among plans with --sync allreduce; give the axes, such as --mesh "
          "data=4");
  const std::optional<HostCosts>& host = options.run.host;
  return options.plan.is_automatic() ||
         (all_reduce && options.plan.is_only_ranks() && host && host->compute);
}

std::optional<HostCosts> find_host_costs() {
  const std::optional<Cluster> host = find_host_file();
  return host ? host->host : std::nullopt;
}

HostCosts measured_host_costs(const std::optional<HostCosts>& known, TrainDisplay& display) {
  if (known && known->compute && known->cores == usable_cores()) {
    return *known;
  }
  display.note("measures this machine first; 'trireme probe' does it once, and more closely");
  return measure::host_costs(measure_host({.ranks = usable_cores(), .quick = true}));
}

Plan choose_plan_here(const TrainOptions& options, TrainDisplay& display) {
  PlanChoiceOptions choose;
  choose.ranks = rank_counts(options);
  choose.threads = options.threads;
  choose.fixed = options.plan.fixed_part();
  choose.fixed.recompute = parsed("--recompute", options.run.settings.recompute, parse_recompute);
  choose.search_zero = !options.plan.zero;
  choose.search_microbatches = !options.plan.microbatches;
  const PlanChoice choice = choose_plan(options.run, choose);
  display.note(report::plan_choice_text(choice));
  return choice.best().plan;
}

}  // namespace trireme::cli
