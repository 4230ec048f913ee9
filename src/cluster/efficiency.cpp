#include "trireme/efficiency.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "cluster/efficiency.h"
#include "trireme/error.h"

namespace trireme {
namespace {

struct ShareField {
  const char* name;
  double Efficiency::*member;
};
constexpr std::array kShares{ShareField{"matmul", &Efficiency::matmul},
                             ShareField{"matmul8", &Efficiency::matmul8},
                             ShareField{"matmul4", &Efficiency::matmul4},
                             ShareField{"attention", &Efficiency::attention},
                             ShareField{"scores", &Efficiency::scores},
                             ShareField{"memory", &Efficiency::memory},
                             ShareField{"node_links", &Efficiency::node_links},
                             ShareField{"network_links", &Efficiency::network_links},
                             ShareField{"overlap", &Efficiency::overlap}};

struct CountField {
  const char* name;
  int Efficiency::*member;
};
constexpr std::array kCounts{CountField{"units", &Efficiency::units},
                             CountField{"tile_rows", &Efficiency::tile_rows},
                             CountField{"tile_columns", &Efficiency::tile_columns}};

std::vector<std::string> field_names() {
  std::vector<std::string> names{"depth", "launch_seconds", "step_seconds", "contention", "source"};
  for (const ShareField& field : kShares) {
    names.emplace_back(field.name);
  }
  for (const CountField& field : kCounts) {
    names.emplace_back(field.name);
  }
  return names;
}

/// Fitted with `trireme calibrate` to the published runs that `source` names; `units` from the vendors' white papers.
struct DefaultRow {
  std::string_view device;
  Efficiency efficiency;
};

const std::vector<DefaultRow>& default_rows() {
  static const Efficiency a100{.matmul = 0.86,
                               .depth = 400,
                               .units = 108,
                               .attention = 0.32,
                               .scores = 0.45,
                               .memory = 0.73,
                               .node_links = 0.92,
                               .network_links = 0.87,
                               .overlap = 0.75,
                               .source =
                                   "fitted to runs of Megatron-LM (SC21), Korthikanti 2022, "
                                   "vTrain and MosaicML on A100s"};
  static const Efficiency h100{.matmul = 0.67,
                               .matmul8 = 0.6,
                               .depth = 300,
                               .units = 132,
                               .attention = 0.19,
                               .memory = 0.52,
                               .node_links = 0.89,
                               .network_links = 0.72,
                               .overlap = 0.95,
                               .source = "fitted to runs of MosaicML and Megatron Bridge on H100s"};
  static const Efficiency h100_96gb{.matmul = 0.53,
                                    .matmul8 = 0.55,
                                    .depth = 300,
                                    .units = 132,
                                    .attention = 0.23,
                                    .memory = 0.41,
                                    .node_links = 0.89,
                                    .network_links = 0.8,
                                    .overlap = 0.72,
                                    .source = "fitted to runs of torchtitan on 500 W H100s"};
  static const Efficiency gb200{.matmul = 0.66,
                                .matmul8 = 0.57,
                                .matmul4 = 0.45,
                                .depth = 300,
                                .units = 148,
                                .attention = 0.21,
                                .memory = 0.57,
                                .node_links = 0.9,
                                .network_links = 0.75,
                                .overlap = 0.75,
                                .source = "fitted to runs of Megatron Bridge on GB200s"};
  static const Efficiency gb300{.matmul = 0.66,
                                .matmul8 = 0.67,
                                .matmul4 = 0.38,
                                .depth = 300,
                                .units = 148,
                                .attention = 0.34,
                                .memory = 0.68,
                                .node_links = 0.9,
                                .network_links = 0.75,
                                .overlap = 0.75,
                                .source = "fitted to runs of Megatron Bridge on GB300s"};
  static const std::vector<DefaultRow> rows{
      {"a100", a100},           {"a100-40gb", a100}, {"h100", h100},  {"h200", h100},
      {"h100-96gb", h100_96gb}, {"gb200", gb200},    {"b200", gb200}, {"b100", gb200},
      {"gb300", gb300},         {"b300", gb300}};
  return rows;
}

}  // namespace

std::vector<std::string> problems(const Efficiency& efficiency) {
  std::vector<std::string> found;
  for (const ShareField& field : kShares) {
    const double share = efficiency.*field.member;
    if (!(share > 0 && share <= 1)) {
      found.push_back(
          fmt::format("{} is {}; expected more than 0 and at most 1", field.name, share));
    }
  }
  for (const CountField& field : kCounts) {
    const int least = field.member == &Efficiency::units ? 0 : 1;
    if (efficiency.*field.member < least) {
      found.push_back(fmt::format("{} is {}; expected at least {}", field.name,
                                  efficiency.*field.member, least));
    }
  }
  for (const double value :
       {efficiency.depth, efficiency.launch.count, efficiency.step.count, efficiency.contention}) {
    if (!(value >= 0 && std::isfinite(value))) {
      found.push_back(fmt::format(
          "depth, launch_seconds, step_seconds or contention is {}; expected at least 0", value));
    }
  }
  return found;
}

Json efficiency_to_json(const Efficiency& efficiency) {
  Json json;
  for (const ShareField& field : kShares) {
    json[field.name] = efficiency.*field.member;
  }
  for (const CountField& field : kCounts) {
    json[field.name] = efficiency.*field.member;
  }
  json["depth"] = efficiency.depth;
  json["launch_seconds"] = efficiency.launch.count;
  json["step_seconds"] = efficiency.step.count;
  json["contention"] = efficiency.contention;
  json["source"] = efficiency.source;
  return json;
}

Efficiency read_efficiency(const Json& value, std::string_view what, const std::string& path) {
  const JsonObject object(value, what, path, field_names());
  Efficiency e;
  for (const ShareField& field : kShares) {
    e.*field.member = object.optional_number(field.name).value_or(e.*field.member);
  }
  for (const CountField& field : kCounts) {
    e.*field.member =
        static_cast<int>(object.optional_integer(field.name).value_or(e.*field.member));
  }
  e.depth = object.optional_number("depth").value_or(e.depth);
  e.launch.count = object.optional_number("launch_seconds").value_or(e.launch.count);
  e.step.count = object.optional_number("step_seconds").value_or(e.step.count);
  e.contention = object.optional_number("contention").value_or(e.contention);
  e.source = object.optional_text("source");
  return e;
}

Efficiency default_efficiency(std::string_view device) {
  for (const DefaultRow& row : default_rows()) {
    if (row.device == device) {
      return row.efficiency;
    }
  }
  Efficiency plain;
  plain.source = fmt::format("assumed: no training runs on {} are known", device);
  return plain;
}

}  // namespace trireme
