#include "report/bench_json.h"

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using measure::BenchReport;
using measure::BenchRow;
using measure::BenchTimes;

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json row_json(const BenchReport& report, const BenchRow& row) {
  const BenchTimes& times = row.result.times;
  Json json;
  json["operation"] = to_text(row.what.operation);
  json["ranks"] = report.plan.ranks;
  json["bytes"] = row.what.bytes.count;
  json["count"] = row.what.count;
  json["dtype"] = to_text(report.plan.dtype);
  json["transport"] = to_text(report.plan.transport);
  json["encrypted"] = report.plan.encrypt;
  json["buffers"] = to_text(report.plan.buffers);
  json["algorithm"] = to_text(row.what.method);
  json["chosen"] = row.result.chosen;
  json["microseconds"] = microseconds(times.median);
  json["min_microseconds"] = microseconds(times.least);
  json["spread"] = times.spread;
  json["calls"] = times.calls;
  json["predicted_microseconds"] = row.predicted ? Json(microseconds(*row.predicted)) : Json();
  json["algbw_gbps"] = measure::algorithm_bandwidth(row);
  json["busbw_gbps"] = measure::bus_bandwidth(row, report.plan.ranks);
  json["floor_share"] = number_or_null(measure::floor_share(row));
  json["best"] = row.best;
  json["correct"] = row.result.correct;
  return json;
}

}  // namespace

std::string bench_json(const BenchReport& report) {
  std::string text;
  for (const BenchRow& row : report.rows) {
    text += row_json(report, row).dump() + "\n";
  }
  return text;
}

}  // namespace trireme::report
