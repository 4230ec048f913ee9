#include "report/schedule_json.h"

#include <iterator>
#include <string>

#include <fmt/format.h>

#include "base/json.h"

namespace trireme::report {
namespace {

using simulate::NetworkReport;
using simulate::ScheduleReport;

/// Buffers small pieces into large ones.
class Output {
 public:
  explicit Output(const TextSink& sink) : sink_(sink) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  std::string& text() {
    if (text_.size() > (1 << 20)) {
      flush();
    }
    return text_;
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }

 private:
  const TextSink& sink_;  // outlives this object, which lives for one call
  std::string text_;
};

Json levels_json(const CostModel& costs) {
  Json levels = Json::array();
  for (const LinkLevel& level : costs.levels) {
    levels.push_back({{"span", level.span},
                      {"alpha_seconds", level.alpha.count},
                      {"beta_seconds_per_byte", level.beta.count}});
  }
  return levels;
}

Json network_json(const NetworkReport& network) {
  Json steps = Json::array();
  for (const StepLoad& load : network.timing.steps) {
    steps.push_back({{"seconds", load.seconds.count},
                     {"busy_links", load.busy_links},
                     {"most_messages_on_a_link", load.max_messages}});
  }
  return {
      {"topology", network.topology.name},         {"switching", to_text(network.costs.switching)},
      {"links", network.topology.links.size()},    {"seconds", network.timing.seconds.count},
      {"utilization", network.timing.utilization}, {"steps", steps}};
}

Json verdict_json(const ScheduleReport& report) {
  if (!report.problems) {
    return {{"verified", nullptr}};
  }
  Json json{{"verified", report.problems->empty()}, {"errors", *report.problems}};
  json["one_port"] = !report.port_conflict.has_value();
  return json;
}

/// Everything but the steps.
Json facts(const ScheduleReport& report) {
  const Schedule& schedule = report.schedule;
  Json json{{"operation", to_text(schedule.operation)},
            {"algorithm", schedule.algorithm},
            {"ranks", schedule.ranks}};
  json["root"] = has_root(schedule.operation) ? Json(schedule.root) : Json(nullptr);
  json["bytes"] = report.payload.elements * report.payload.element_bytes;
  json["element_bytes"] = report.payload.element_bytes;
  json["blocks"] = schedule.blocks;
  json["rounds"] = report.traffic.rounds;
  json["seconds"] = report.timing.seconds.count;
  json["lower_bound_seconds"] = report.lower_bound.count;
  json["formula"] = report.formula.empty() ? Json(nullptr) : Json(report.formula);
  json["formula_seconds"] =
      report.formula_seconds ? Json(report.formula_seconds->count) : Json(nullptr);
  json["messages"] = report.traffic.messages;
  json["bytes_total"] = report.traffic.bytes_total.count;
  json["peak_vectors"] = report.traffic.peak;
  json["total_vectors"] = report.traffic.total;
  json["scratch_blocks"] = report.scratch_blocks ? Json(*report.scratch_blocks) : Json(nullptr);
  json["levels"] = levels_json(report.costs);
  json["gamma_seconds_per_byte"] = report.costs.gamma.count;
  json.update(verdict_json(report));
  if (report.network) {
    json["network"] = network_json(*report.network);
  }
  if (!report.reason.empty()) {
    json["reason"] = report.reason;
  }
  return json;
}

void append_message(Output& output, const Message& m) {
  fmt::format_to(std::back_inserter(output.text()), R"({{"from":{},"to":{},"blocks":[)", m.from,
                 m.to);
  bool first = true;
  for_each_block(m.blocks, [&](Block block) {
    fmt::format_to(std::back_inserter(output.text()), "{}{}", first ? "" : ",", block);
    first = false;
  });
  fmt::format_to(std::back_inserter(output.text()), R"(],"combine":{}}})",
                 m.action == Action::Combine);
}

}  // namespace

void write_schedule_json(const ScheduleReport& report, const TextSink& sink) {
  Output output(sink);
  std::string head = facts(report).dump();
  head.pop_back();  // the steps go in before the closing brace
  output.text() += head + ",\"step_seconds\":[";
  for (std::size_t t = 0; t < report.timing.steps.size(); ++t) {
    output.text() += (t == 0 ? "" : ",");
    append_json_number(output.text(), report.timing.steps[t].count);
  }
  output.text() += "],\"steps\":[";
  for (std::size_t t = 0; t < report.schedule.steps.size(); ++t) {
    output.text() += t == 0 ? "[" : ",[";
    bool first = true;
    for_each_message(report.schedule.steps[t], [&](const Message& m) {
      output.text() += first ? "" : ",";
      append_message(output, m);
      first = false;
    });
    output.text() += "]";
  }
  output.text() += "]}\n";
  output.flush();
}

}  // namespace trireme::report
