#include "report/bench_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/median.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using measure::BenchPlan;
using measure::BenchReport;
using measure::BenchRow;
using measure::BenchTimes;

/// Predictions are evaluated for this size and above.
constexpr std::int64_t kJudgedFrom = std::int64_t{64} << 10;
/// A choice this close to the best counts as correct.
constexpr double kNearBest = 1.1;

bool is_open(const BenchRow& row) {
  return row.what.method.kind == Method::Kind::Automatic;
}

std::optional<double> error_of(const BenchRow& row) {
  if (!row.predicted || row.result.times.median.count <= 0) {
    return std::nullopt;
  }
  return row.predicted->count / row.result.times.median.count - 1;
}

/// "0.412", "12.3", "7333": three significant digits, never an exponent.
std::string three_digits(double value) {
  if (value >= 100) {
    return fmt::format("{:.0f}", value);
  }
  return fmt::format("{:.{}f}", value, value >= 10 ? 1 : value >= 1 ? 2 : 3);
}

std::string whole_percent(const std::optional<double>& part, bool sign) {
  if (!part) {
    return "-";
  }
  return sign ? fmt::format("{:+.0f}", *part * 100) : fmt::format("{:.0f}", *part * 100);
}

std::string algorithm_text(const BenchRow& row) {
  const std::string text(to_text(row.what.method));
  return is_open(row) ? fmt::format("{} ({})", text, row.result.chosen) : text;
}

std::string head(const BenchReport& report, Operation operation) {
  const BenchPlan& plan = report.plan;
  return fmt::format("{}, {} by {}{}, {}, {} buffers", to_text(operation),
                     plural(plan.ranks, "rank"), to_text(plan.transport),
                     plan.encrypt ? ", encrypted" : "", to_text(plan.dtype), to_text(plan.buffers));
}

std::string table_line(const BenchRow& row, Rank ranks, bool color) {
  const BenchTimes& times = row.result.times;
  const std::string line = fmt::format(
      "{} {:>10} {:>11}  {:<32} {:>9} {:>9} {:>6} {:>7} {:>7} {:>9} {:>6} {:>6}  ",
      row.best ? "*" : " ", to_text(row.what.bytes), row.what.count, algorithm_text(row),
      three_digits(microseconds(times.median)), three_digits(microseconds(times.least)),
      whole_percent(times.spread, false), three_digits(measure::algorithm_bandwidth(row)),
      three_digits(measure::bus_bandwidth(row, ranks)),
      row.predicted ? three_digits(microseconds(*row.predicted)) : "-",
      whole_percent(error_of(row), true), whole_percent(measure::floor_share(row), false));
  return (row.best ? styled(line, Style::Bold, color) : line) +
         (row.result.correct ? styled("yes", Style::Good, color)
                             : styled("WRONG", Style::Bad, color)) +
         "\n";
}

std::string table_header() {
  return fmt::format(
      "{} {:>10} {:>11}  {:<32} {:>9} {:>9} {:>6} {:>7} {:>7} {:>9} {:>6} {:>6}  {}\n", " ", "size",
      "count", "algorithm", "time us", "min us", "+-%", "algbw", "busbw", "predicted", "err %",
      "floor%", "ok");
}

std::string prediction_summary(const BenchReport& report) {
  std::vector<double> direct;
  std::vector<double> messages;
  for (const BenchRow& row : report.rows) {
    if (const std::optional<double> error = error_of(row);
        error && row.what.bytes.count >= kJudgedFrom) {
      (row.result.chosen == to_text(Method::direct()) ? direct : messages)
          .push_back(std::abs(*error));
    }
  }
  std::vector<double> all = direct;
  all.insert(all.end(), messages.begin(), messages.end());
  if (all.empty()) {
    return {};
  }
  const auto part = [](const std::vector<double>& errors) {
    return errors.empty() ? std::string("none")
                          : fmt::format("{:.0f} % of {}", median(errors) * 100, errors.size());
  };
  return fmt::format(
      "predictions from 64 KiB on: {:.0f} % off (median of {}); direct {}, by messages {}\n",
      median(all) * 100, all.size(), part(direct), part(messages));
}

std::string choice_summary(const BenchReport& report) {
  int cells = 0;
  int near = 0;
  measure::for_each_cell(report.plan.cases, [&](std::size_t first, std::size_t last) {
    const auto begin = report.rows.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = report.rows.begin() + static_cast<std::ptrdiff_t>(last);
    const auto open = std::find_if(begin, end, is_open);
    const auto best = std::find_if(begin, end, [](const BenchRow& row) { return row.best; });
    if (last - first > 1 && open != end && best != end) {
      ++cells;
      near +=
          open->result.times.median.count <= kNearBest * best->result.times.median.count ? 1 : 0;
    }
  });
  return cells == 0
             ? ""
             : fmt::format("the automatic choice: within 10 % of the best in {} of {} cells\n",
                           near, cells);
}

}  // namespace

std::string bench_text(const BenchReport& report, bool color) {
  std::string text;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const BenchRow& row = report.rows[i];
    if (i == 0 || report.rows[i - 1].what.operation != row.what.operation) {
      text += (i == 0 ? "" : "\n") + styled(head(report, row.what.operation), Style::Bold, color) +
              "\n" + table_header();
    }
    text += table_line(row, report.plan.ranks, color);
  }
  return text + "\n" + prediction_summary(report) + choice_summary(report);
}

}  // namespace trireme::report
