// `trireme tour`: a two-minute introduction to schedules.
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "report/comparison_json.h"
#include "report/comparison_text.h"
#include "report/schedule_text.h"
#include "trireme/algorithm_comparison.h"
#include "trireme/schedule_report.h"

namespace trireme::cli {
namespace {

/// Three workers, three chunks of two numbers: the usual textbook example of ring all-reduce.
Values three_workers() {
  return {{{5, 13}, {8, 19}, {42, 1}}, {{8, 11}, {4, 2}, {7, 7}}, {{9, 27}, {3, 15}, {8, 4}}};
}

std::vector<report::ReplayState> ring_states() {
  Values values = three_workers();
  std::vector<report::ReplayState> states{{"start", values}};
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 3});
  replay(ring, values, [&](std::size_t t) {
    const bool adding = t < ring.steps.size() / 2;
    states.push_back({fmt::format("step {}, {}", t + 1, adding ? "add" : "copy"), values});
  });
  return states;
}

std::string state_line(const report::ReplayState& state) {
  std::string out = padded("  " + state.title, 16);
  for (std::size_t worker = 0; worker < state.values.size(); ++worker) {
    out += fmt::format("{} [", static_cast<char>('A' + worker));
    for (std::size_t chunk = 0; chunk < state.values[worker].size(); ++chunk) {
      const std::vector<double>& numbers = state.values[worker][chunk];
      out += fmt::format("{}{:>2} {:>2}", chunk == 0 ? "" : " | ", numbers[0], numbers[1]);
    }
    out += "]   ";
  }
  return out + "\n";
}

const CostModel kCosts;  // alpha 1 us, beta 1 ns/B, gamma 0.1 ns/B

std::string catalog_report(Operation operation, Algorithm algorithm, Rank ranks,
                           const Terminal& terminal) {
  return report::schedule_text(
      simulate::make_schedule_report(
          simulate::ScheduleRecipe{operation, algorithm, {.ranks = ranks}}, {1 << 20}, kCosts),
      terminal);
}

simulate::AlgorithmComparison tour_comparison() {
  Selector selector(kCosts);
  return simulate::compare_algorithms(selector, {.operation = Operation::Allreduce, .ranks = 8},
                                      simulate::size_range({64}, {1 << 26}, 16));
}

void print_tour(const Terminal& terminal) {
  const auto heading = [&](std::string_view text) {
    std::cout << "\n" << styled(text, Style::Bold, terminal.color) << "\n\n";
  };
  std::cout << "A collective is a schedule: data that is drawn, timed, verified, reversed and "
               "composed.\n";
  heading(
      "1. Ring all-reduce, three workers: each chunk circulates twice, first adding, then copying");
  for (const report::ReplayState& state : ring_states()) {
    std::cout << state_line(state);
  }
  heading("2. The same schedule for four ranks, who sends which block to whom");
  std::cout << catalog_report(Operation::Allreduce, Algorithm::Ring, 4, terminal);
  heading("3. A spanning tree takes fewer rounds with whole vectors");
  std::cout << catalog_report(Operation::Broadcast, Algorithm::Mst, 8, terminal);
  heading("4. Which one is fastest depends on the size");
  std::cout << report::comparison_text(tour_comparison(), terminal.color);
  heading("Continue with");
  std::cout << "  trireme schedule --help\n"
               "  trireme schedule broadcast --algorithm mst --ranks 9 --root 1 --svg tree.svg\n"
               "  trireme schedule allreduce --compare --ranks 16 --svg compare.svg\n"
               "  trireme schedule allreduce --cluster dgx-h100:4 --size 256MiB\n"
               "(./run ARGS runs trireme ARGS)\n";
}

}  // namespace

void add_tour_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("tour", "A short tour of schedules and algorithms");
  command->add_flag("--json", *json, "the numbers of the tour as one JSON object");
  command->footer("Examples:\n  trireme tour\n  trireme tour --json | jq .comparison.crossovers");
  command->callback([json] {
    if (*json) {
      std::cout << report::tour_json(ring_states(), tour_comparison());
    } else {
      print_tour(standard_output());
    }
  });
}

}  // namespace trireme::cli
