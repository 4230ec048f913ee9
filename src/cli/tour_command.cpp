// `trireme tour`: a two-minute introduction to schedules.
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "command_line/terminal.h"
#include "report/comparison_json.h"
#include "report/comparison_text.h"
#include "report/schedule_text.h"
#include "report/tour_text.h"
#include "trireme/algorithm_comparison.h"
#include "trireme/schedule_report.h"

namespace trireme::cli {
namespace {

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
  for (const report::ReplayState& state : report::ring_states()) {
    std::cout << report::state_line(state);
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

void add_tour_command(Command& app) {
  auto json = std::make_shared<bool>(false);
  Command* command = app.add_subcommand("tour", "Take a short tour of collective algorithms");
  command->add_flag("--json", *json, "the numbers of the tour as one JSON object");
  command->callback([json] {
    if (*json) {
      std::cout << report::tour_json(report::ring_states(), tour_comparison());
    } else {
      print_tour(standard_output());
    }
  });
}

}  // namespace trireme::cli
