// Iterates over the whole catalogue: every operation, algorithm, number of ranks and root.
#pragma once

#include <string>

#include "trireme/collective.h"

namespace trireme {

struct Case {
  Operation operation;
  Algorithm algorithm;
  BuildOptions options;

  [[nodiscard]] std::string text() const {
    return std::string(to_text(operation)) + " " + std::string(to_text(algorithm)) +
           " p=" + std::to_string(options.ranks) + " root=" + std::to_string(options.root) +
           " k=" + std::to_string(options.segments) +
           " d=" + std::to_string(options.ranks_per_node);
  }
};

/// The variants that one number of ranks and one root allow: segments 1 and 3 where they matter,
/// every node size.
inline std::vector<BuildOptions> variants(Algorithm algorithm, Rank ranks, Rank root) {
  std::vector<BuildOptions> out;
  if (algorithm == Algorithm::Chain || algorithm == Algorithm::DoubleTree) {
    for (const std::int64_t segments : {1, 3}) {
      out.push_back({.ranks = ranks, .root = root, .segments = segments});
    }
  } else if (algorithm == Algorithm::TwoLevel) {
    for (Rank d = 1; d <= ranks; ++d) {
      if (ranks % d == 0) {
        out.push_back({.ranks = ranks, .root = root, .ranks_per_node = d});
      }
    }
  } else {
    out.push_back({.ranks = ranks, .root = root});
  }
  return out;
}

/// The same schedule with every rotation written out as plain transfers.
inline Schedule spelled_out(Schedule schedule) {
  for (Step& step : schedule.steps) {
    std::vector<Transfer> all;
    for_each_message(step, [&](const Message& m) {
      all.push_back({m.from, m.to, m.action, {m.blocks.begin(), m.blocks.end()}});
    });
    step = {std::move(all), {}};
  }
  return schedule;
}

template <class Visitor>
void for_every_schedule(Rank first_ranks, Rank last_ranks, const Visitor& visit) {
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (Rank ranks = first_ranks; ranks <= last_ranks; ++ranks) {
        for (Rank root = 0; root < (has_root(operation) ? ranks : 1); ++root) {
          for (const BuildOptions& options : variants(algorithm, ranks, root)) {
            visit(Case{operation, algorithm, options}, build(operation, algorithm, options));
          }
        }
      }
    }
  }
}

}  // namespace trireme
