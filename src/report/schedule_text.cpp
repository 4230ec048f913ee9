#include "report/schedule_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using simulate::NetworkReport;
using simulate::ScheduleReport;

constexpr std::size_t kMaxPrintedSteps = 24;
/// Messages of one step, if they do not fit into columns.
constexpr std::size_t kMaxListedMessages = 12;

/// "1 MiB in 8 blocks of 128 KiB"
std::string payload_text(const ScheduleReport& report) {
  const std::int64_t bytes = report.payload.elements * report.payload.element_bytes;
  const Schedule& schedule = report.schedule;
  if (schedule.operation == Operation::Barrier) {
    return "no data";
  }
  std::string text = to_text(Bytes{bytes});
  if (schedule.layout == Layout::Replicas) {
    return text + ", whole vectors";
  }
  const Block pieces = schedule.layout == Layout::Pairs ? schedule.ranks : schedule.blocks;
  if (pieces == 1) {
    return text + ", one block";
  }
  const std::int64_t largest =
      block_extent(schedule, report.payload.elements, 0).length * report.payload.element_bytes;
  const bool even = report.payload.elements % pieces == 0;
  return fmt::format("{}{} in {} blocks of {}{}", text,
                     schedule.layout == Layout::Pairs ? " a rank" : "", pieces,
                     even ? "" : "at most ", to_text(Bytes{largest}));
}

std::string headline(const ScheduleReport& report, bool color) {
  const Schedule& schedule = report.schedule;
  std::string title = fmt::format("{} by {}", to_text(schedule.operation), schedule.algorithm);
  std::string rest = fmt::format(" over {}", plural(schedule.ranks, "rank"));
  if (has_root(schedule.operation)) {
    rest += fmt::format(", root {}", schedule.root);
  }
  return styled(title, Style::Bold, color) + rest + ", " + payload_text(report) + "\n";
}

/// The text of the sender's column: "3→1", or "3+→1" if the receiver adds it; without the 3 if there is only one block.
std::string cell_text(const Schedule& schedule, const Message& m) {
  const std::string blocks = schedule.blocks == 1 ? "" : simulate::blocks_text(schedule, m.blocks);
  return fmt::format("{}{}→{}", blocks, m.action == Action::Combine ? "+" : "", m.to);
}

/// How to read the cells.
std::string key_text(const Schedule& schedule, bool in_columns) {
  const std::string block = schedule.blocks == 1               ? ""
                            : schedule.layout == Layout::Pairs ? "3>2"
                                                               : "3";
  const bool barrier = schedule.operation == Operation::Barrier;
  const std::string what = barrier                            ? "what it has heard"
                           : schedule.blocks == 1             ? "its vector"
                           : schedule.layout == Layout::Pairs ? "the block from rank 3 for rank 2"
                                                              : "block 3";
  std::string text = fmt::format("  {}{}→1: {} sends {} to rank 1", in_columns ? "" : "0:", block,
                                 in_columns ? "the rank of the column" : "rank 0", what);
  if (combines(schedule.operation) || barrier) {
    text += fmt::format("; {}+→1: rank 1 adds it to its own", block);
  }
  return text + "\n";
}

using SentByRank = IndexedVector<Rank, std::string>;

std::vector<SentByRank> sent_by_rank(const Schedule& schedule, std::size_t steps) {
  std::vector<SentByRank> rows;
  for (std::size_t t = 0; t < steps; ++t) {
    SentByRank row(schedule.ranks);
    for_each_message(schedule.steps[t], [&](const Message& m) {
      std::string& cell = row[m.from];
      cell += (cell.empty() ? "" : " ") + cell_text(schedule, m);
    });
    rows.push_back(std::move(row));
  }
  return rows;
}

int widest(const std::vector<SentByRank>& rows, Rank rank) {
  int width = display_width(fmt::format("rank {}", rank));
  for (const SentByRank& row : rows) {
    width = std::max(width, display_width(row[rank]));
  }
  return width;
}

/// Ranks across, steps down; nothing if it does not fit the width.
std::optional<std::string> columns_text(const ScheduleReport& report, std::size_t steps,
                                        const Terminal& terminal) {
  if (report.schedule.ranks > 64) {
    return std::nullopt;
  }
  const std::vector<SentByRank> rows = sent_by_rank(report.schedule, steps);
  IndexedVector<Rank, int> widths;
  int total = 18;
  for (Rank rank = 0; rank < report.schedule.ranks; ++rank) {
    widths.push_back(widest(rows, rank) + 2);
    total += widths.back();
  }
  if (total > terminal.width) {
    return std::nullopt;
  }
  std::string out = "  step  ";
  for (Rank rank = 0; rank < widths.count(); ++rank) {
    out += styled(padded(fmt::format("rank {}", rank), widths[rank]), Style::Dim, terminal.color);
  }
  out += styled("takes", Style::Dim, terminal.color) + "\n";
  for (std::size_t t = 0; t < rows.size(); ++t) {
    out += fmt::format("  {:>4}  ", t + 1);
    for (Rank rank = 0; rank < widths.count(); ++rank) {
      const std::string& cell = rows[t][rank];
      out += cell.empty() ? styled(padded("·", widths[rank]), Style::Dim, terminal.color)
                          : padded(cell, widths[rank]);
    }
    out += to_text(report.timing.steps[t]) + "\n";
  }
  return out;
}

/// One line per step: the first messages of each.
std::string list_text(const ScheduleReport& report, std::size_t steps) {
  std::string out;
  for (std::size_t t = 0; t < steps; ++t) {
    std::size_t count = 0;
    std::string line;
    for_each_message(report.schedule.steps[t], [&](const Message& m) {
      if (++count <= kMaxListedMessages) {
        line += fmt::format("  {}:{}", m.from, cell_text(report.schedule, m));
      }
    });
    if (count > kMaxListedMessages) {
      line += fmt::format("  … {} more", count - kMaxListedMessages);
    }
    out += fmt::format("  {:>4}{}  ({})\n", t + 1, line, to_text(report.timing.steps[t]));
  }
  return out;
}

std::string steps_text(const ScheduleReport& report, const Terminal& terminal) {
  const std::size_t all = report.schedule.steps.size();
  if (all == 0) {
    return "  nothing to do\n";
  }
  const std::size_t shown = all <= kMaxPrintedSteps ? all : kMaxPrintedSteps / 2;
  const std::optional<std::string> columns = columns_text(report, shown, terminal);
  std::string out = columns ? *columns : list_text(report, shown);
  if (shown < all) {
    out += fmt::format("  … {} more steps (--json or --text has them all)\n", all - shown);
  }
  return out + styled(key_text(report.schedule, columns.has_value()), Style::Dim, terminal.color);
}

std::string costs_text(const CostModel& costs) {
  std::string out;
  for (const LinkLevel& level : costs.levels) {
    const std::string where = costs.is_uniform() ? ""
                              : level.span == 0  ? "between all: "
                                                 : fmt::format("within {}: ", level.span);
    out += fmt::format("{}α = {}, β = {}/B, ", where, to_text(level.alpha), to_text(level.beta));
  }
  return out + fmt::format("γ = {}/B", to_text(costs.gamma));
}

std::string ports_text(const ScheduleReport& report) {
  if (!report.problems) {
    return "not verified: too large to track";
  }
  if (!report.port_conflict) {
    return "one-port rule satisfied";
  }
  const PortConflict& conflict = *report.port_conflict;
  return fmt::format(
      "one-port rule first violated in step {}: rank {} sends {} and receives {}; timed one after "
      "another",
      conflict.step + 1, conflict.rank, conflict.sends, conflict.receives);
}

std::string verdict_text(const ScheduleReport& report, bool color) {
  if (!report.problems) {
    return "not verified: too large to track every contribution";
  }
  if (report.problems->empty()) {
    return styled("yes", Style::Good, color) +
           fmt::format(", every rank ends with exactly what {} promises",
                       to_text(report.schedule.operation));
  }
  std::string out = styled("WRONG", Style::Bad, color);
  for (const std::string& problem : *report.problems) {
    out += "\n               " + problem;
  }
  return out;
}

std::string network_text(const NetworkReport& network) {
  int conflicts = 0;
  int worst = 0;
  for (const StepLoad& load : network.timing.steps) {
    conflicts += load.max_messages > 1 ? 1 : 0;
    worst = std::max(worst, load.max_messages);
  }
  return fmt::format("{}, {}: {}; {:.0f} % of its {} directed links busy; {}",
                     network.topology.name, to_text(network.costs.switching),
                     to_text(network.timing.seconds), 100 * network.timing.utilization,
                     network.topology.links.size(),
                     conflicts == 0 ? "no link carries two messages in a step"
                                    : fmt::format("in {} links are shared, by up to {} messages",
                                                  plural(conflicts, "step"), worst));
}

/// " = FORMULA", " ≈ FORMULA" if blocks of unequal size make a small difference, or nothing if the formula does not
/// apply: links of several speeds, vectors shorter than their blocks.
std::string formula_note(const ScheduleReport& report) {
  if (!report.formula_seconds) {
    return {};
  }
  const double difference = std::abs(report.formula_seconds->count - report.timing.seconds.count);
  if (difference <= 1e-9 * report.timing.seconds.count) {
    return " = " + report.formula;
  }
  return difference <= 0.02 * report.timing.seconds.count ? " ≈ " + report.formula : "";
}

std::string summary_text(const ScheduleReport& report, const Terminal& terminal) {
  const Traffic& traffic = report.traffic;
  std::string out;
  std::string cost = styled(to_text(report.timing.seconds), Style::Bold, terminal.color);
  cost += formula_note(report);
  out += summary_line("time", cost);
  out += summary_line("", costs_text(report.costs));
  std::string bound = to_text(report.lower_bound);
  if (report.lower_bound.count > 0) {
    bound += fmt::format("{}; this takes {:.4g} times as long",
                         report.costs.is_uniform() ? "" : " over the fastest links",
                         report.timing.seconds.count / report.lower_bound.count);
  }
  out += summary_line("lower bound", bound);
  out += summary_line(
      "traffic", fmt::format("{}, {}, {} over all links", plural(traffic.rounds, "round"),
                             plural(traffic.messages, "message"), to_text(traffic.bytes_total)));
  if (traffic.total > 0) {
    out += summary_line(
        "",
        fmt::format("in whole vectors: {:.4g} in total, at most {:.4g} at one rank in one round",
                    traffic.total, traffic.peak));
  }
  if (report.scratch_blocks.value_or(0) > 0) {
    out += summary_line("scratch", fmt::format("{} beyond the caller's buffers",
                                               plural(*report.scratch_blocks, "block")));
  }
  out += summary_line("ports", ports_text(report));
  if (report.network) {
    out += summary_line("network", network_text(*report.network));
  }
  out += summary_line("verified", verdict_text(report, terminal.color));
  return out;
}

}  // namespace

std::string schedule_text(const ScheduleReport& report, const Terminal& terminal) {
  std::string out = headline(report, terminal.color);
  if (!report.reason.empty()) {
    out += report.reason + "\n";
  }
  return out + "\n" + steps_text(report, terminal) + "\n" + summary_text(report, terminal);
}

}  // namespace trireme::report
