#include "report/plan_ops_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"

namespace trireme::report {
namespace {

/// The devices along pipe that have a stage: several if there are copies of the model.
std::vector<int> devices_of(const PipelineTable& table, int stage) {
  std::vector<int> devices;
  for (int copy = 0; stage >= 0 && copy < table.copies; ++copy) {
    devices.push_back(table.rank_of(copy, stage));
  }
  return devices;
}

std::string number_or_dash(int number) {
  return number < 0 ? "-" : fmt::format("{}", number);
}

std::string devices_text(const PipelineTable& table, int stage) {
  return stage < 0 ? "-" : fmt::format("{}", fmt::join(devices_of(table, stage), ","));
}

/// Rows of words in columns as wide as their widest word; the last is not padded.
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       const Terminal& terminal) {
  std::vector<int> widths(rows.front().size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += padded(row[i], widths[i]) + "  ";
    }
    line += row.back();
    text += (text.empty() ? styled(line, Style::Bold, terminal.color) : line) + "\n";
  }
  return text;
}

}  // namespace

std::string plan_ops_text(const CompiledPlan& compiled, const Terminal& terminal) {
  const PipelineTable table = table_of(compiled.plan());
  std::vector<std::vector<std::string>> rows{
      {"op", "kind", "phase", "block", "stage", "device", "placement", "reads"}};
  for (const PlacedOp& op : compiled.partition().ops()) {
    rows.push_back({op.name, op.kind, std::string(to_text(op.phase)), number_or_dash(op.block),
                    fmt::format("{}", op.stage), devices_text(table, op.stage),
                    to_text(op.placement, compiled.axes()),
                    fmt::format("{}", fmt::join(op.inputs, " "))});
  }
  return table_text(rows, terminal);
}

std::string plan_ops_json(const CompiledPlan& compiled) {
  const PipelineTable table = table_of(compiled.plan());
  Json json{{"ops", Json::array()}};
  for (const PlacedOp& op : compiled.partition().ops()) {
    json["ops"].push_back({{"name", op.name},
                           {"kind", op.kind},
                           {"phase", to_text(op.phase)},
                           {"block", op.block},
                           {"stage", op.stage},
                           {"devices", devices_of(table, op.stage)},
                           {"type", to_text(op.type)},
                           {"placement", to_text(op.placement, compiled.axes())},
                           {"inputs", op.inputs}});
  }
  return json.dump(2) + "\n";
}

std::string plan_values_text(const CompiledPlan& compiled, const Terminal& terminal) {
  const PipelineTable table = table_of(compiled.plan());
  std::vector<std::vector<std::string>> rows{
      {"value", "origin", "stage", "device", "placement", "type"}};
  for (const PlacedValue& value : compiled.partition().values()) {
    rows.push_back({value.name, std::string(to_text(value.origin)), number_or_dash(value.stage),
                    devices_text(table, value.stage), to_text(value.placement, compiled.axes()),
                    to_text(value.type)});
  }
  return table_text(rows, terminal);
}

std::string plan_values_json(const CompiledPlan& compiled) {
  const PipelineTable table = table_of(compiled.plan());
  Json json{{"values", Json::array()}};
  for (const PlacedValue& value : compiled.partition().values()) {
    json["values"].push_back({{"name", value.name},
                              {"origin", to_text(value.origin)},
                              {"stage", value.stage},
                              {"devices", devices_of(table, value.stage)},
                              {"type", to_text(value.type)},
                              {"placement", to_text(value.placement, compiled.axes())}});
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
