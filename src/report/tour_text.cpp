#include "report/tour_text.h"

#include <fmt/format.h>

#include "report/text_style.h"
#include "trireme/collective.h"

namespace trireme::report {
namespace {

/// Three workers, three chunks of two numbers: the usual textbook example of ring all-reduce.
Values three_workers() {
  return {{{5, 13}, {8, 19}, {42, 1}}, {{8, 11}, {4, 2}, {7, 7}}, {{9, 27}, {3, 15}, {8, 4}}};
}

}  // namespace

std::vector<ReplayState> ring_states() {
  Values values = three_workers();
  std::vector<ReplayState> states{{"start", values}};
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 3});
  replay(ring, values, [&](std::size_t t) {
    const bool adding = t < ring.steps.size() / 2;
    states.push_back({fmt::format("step {}, {}", t + 1, adding ? "add" : "copy"), values});
  });
  return states;
}

std::string state_line(const ReplayState& state) {
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

}  // namespace trireme::report
