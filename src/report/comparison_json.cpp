#include "report/comparison_json.h"

#include "base/json.h"

namespace trireme::report {

namespace {

Json to_json(const simulate::AlgorithmComparison& comparison) {
  Json json{{"operation", to_text(comparison.operation)}, {"ranks", comparison.ranks}};
  json["root"] = has_root(comparison.operation) ? Json(comparison.root) : Json(nullptr);
  json["rows"] = Json::array();
  for (const simulate::ComparisonRow& row : comparison.rows) {
    Json seconds = Json::object();
    for (const Choice& choice : row.ranking) {
      seconds[std::string(to_text(choice.algorithm))] = choice.predicted.count;
    }
    json["rows"].push_back(
        {{"bytes", row.bytes.count},
         {"best", to_text(row.ranking.front().algorithm)},
         {"lower_bound_seconds",
          lower_bound(comparison.operation, comparison.ranks, {row.bytes.count}, comparison.costs)
              .count},
         {"seconds", seconds}});
  }
  json["crossovers"] = Json::array();
  for (const simulate::Crossover& crossover : comparison.crossovers) {
    json["crossovers"].push_back({{"bytes", crossover.bytes.count},
                                  {"from", to_text(crossover.before)},
                                  {"to", to_text(crossover.after)}});
  }
  return json;
}

}  // namespace

std::string comparison_json(const simulate::AlgorithmComparison& comparison) {
  return to_json(comparison).dump(2) + "\n";
}

std::string tour_json(const std::vector<ReplayState>& states,
                      const simulate::AlgorithmComparison& comparison) {
  Json replay = Json::array();
  for (const ReplayState& state : states) {
    replay.push_back({{"title", state.title}, {"workers", state.values}});
  }
  const Json json{{"ring_allreduce_of_three", replay}, {"comparison", to_json(comparison)}};
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
