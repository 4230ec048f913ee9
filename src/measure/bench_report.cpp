#include <algorithm>
#include <cstddef>
#include <utility>

#include "measure/bench_model.h"
#include "trireme/bench.h"
#include "trireme/collective.h"

namespace trireme::measure {
namespace {

/// Whether a tuning may choose it: correct, and the same bits on all ranks.
bool is_candidate(const BenchRow& row, const Method& method) {
  return row.result.correct &&
         (method.kind == Method::Kind::Direct || properties(method.algorithm).bit_identical);
}

TuningRow tuning_row(const BenchReport& report, std::size_t first, std::size_t last) {
  const BenchRow& any = report.rows[first];
  TuningRow row{.operation = any.what.operation,
                .ranks = report.plan.ranks,
                .transport = report.plan.transport,
                .buffers = report.plan.buffers,
                .measured = {any.what.count * size_of(report.plan.dtype).count}};
  for (std::size_t i = first; i < last; ++i) {
    const BenchResult& result = report.rows[i].result;
    const Method method = parse_method(result.chosen);
    if (is_candidate(report.rows[i], method)) {
      row.candidates.push_back(
          {method, result.times.median, result.times.spread, result.times.calls});
    }
  }
  const auto best = std::ranges::min_element(row.candidates, {},
                                             [](const TuningCandidate& c) { return c.median; });
  if (best != row.candidates.end()) {
    row.method = best->method;
  }
  return row;
}

void predict(BenchReport& report) {
  const BenchModel model(report.plan);
  for (BenchRow& row : report.rows) {
    row.predicted = model.predict(row.what, row.result.chosen);
    row.floor = model.floor(row.what);
  }
}

void mark_best(BenchReport& report) {
  for_each_cell(report.plan.cases, [&](std::size_t first, std::size_t last) {
    BenchRow* best = nullptr;
    for (std::size_t i = first; i < last; ++i) {
      BenchRow& row = report.rows[i];
      if (row.result.correct &&
          (best == nullptr || row.result.times.median < best->result.times.median)) {
        best = &row;
      }
    }
    if (best != nullptr) {
      best->best = true;
    }
  });
}

}  // namespace

BenchReport make_bench_report(BenchPlan plan, std::vector<BenchResult> results) {
  BenchReport report{.plan = std::move(plan)};
  for (std::size_t i = 0; i < results.size(); ++i) {
    report.rows.push_back({.what = report.plan.cases[i], .result = std::move(results[i])});
  }
  if (report.plan.costs) {
    predict(report);
  }
  mark_best(report);
  return report;
}

double algorithm_bandwidth(const BenchRow& row) {
  const double seconds = row.result.times.median.count;
  return seconds > 0 ? static_cast<double>(row.what.bytes.count) / seconds * 1e-9 : 0;
}

double bus_bandwidth(const BenchRow& row, Rank ranks) {
  const double part = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (row.what.operation) {
    case Operation::Allreduce:
      return 2 * part * algorithm_bandwidth(row);
    case Operation::ReduceScatter:
    case Operation::Allgather:
    case Operation::Alltoall:
      return part * algorithm_bandwidth(row);
    default:
      return algorithm_bandwidth(row);
  }
}

std::optional<double> floor_share(const BenchRow& row) {
  if (!row.floor || row.result.times.median.count <= 0) {
    return std::nullopt;
  }
  return row.floor->count / row.result.times.median.count;
}

Tuning make_tuning(const BenchReport& report, const TuningOrigin& origin) {
  Tuning tuning{.machine = origin.machine, .date = origin.date, .dtype = report.plan.dtype};
  for_each_cell(report.plan.cases, [&](std::size_t first, std::size_t last) {
    tuning.rows.push_back(tuning_row(report, first, last));
  });
  std::erase_if(tuning.rows, [](const TuningRow& row) { return row.candidates.empty(); });
  extend_ranges(tuning);
  return tuning;
}

}  // namespace trireme::measure
