#include "report/pipeline_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using simulate::PipelineReport;

using TaskSpan = PipelineTiming::Span;

constexpr std::size_t kMaxPrintedRanks = 64;
constexpr std::string_view kIdle = "·";

/// The appearance of a kind of work: its letter, and its terminal color codes.
struct Look {
  char letter;
  std::string_view code;
};
constexpr IndexedArray<PipelineWork, Look, 5> kLooks{
    {{{'F', "30;104"}, {'B', "30;102"}, {'I', "30;106"}, {'W', "30;103"}, {'U', "30;105"}}}};

const Look& look_of(PipelineWork work) {
  return kLooks.at(work);
}

std::string colored(std::string_view text, const Look& look, bool color) {
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", look.code, text) : std::string(text);
}

/// The kinds of work that the table has and that take time.
std::set<PipelineWork> shown_works(const PipelineReport& report) {
  std::set<PipelineWork> works;
  for (std::size_t rank = 0; rank < report.table.tasks.size(); ++rank) {
    for (std::size_t i = 0; i < report.table.tasks[rank].size(); ++i) {
      const TaskSpan& span = report.timing.tasks[rank][i];
      if (span.end > span.start) {
        works.insert(report.table.tasks[rank][i].work);
      }
    }
  }
  return works;
}

/// The longest duration of which every start and end is a multiple, if it divides the shortest task
/// by at most 12; else nothing.
std::optional<double> find_slot(const PipelineTiming& timing) {
  double shortest = timing.makespan;
  for (const std::vector<TaskSpan>& rank : timing.tasks) {
    for (const TaskSpan& span : rank) {
      shortest = span.end > span.start ? std::min(shortest, span.end - span.start) : shortest;
    }
  }
  const auto is_multiple = [](double time, double slot) {
    return std::abs(time / slot - std::round(time / slot)) < 1e-6;
  };
  for (int parts = 1; parts <= 12; ++parts) {
    const double slot = shortest / parts;
    if (std::ranges::all_of(timing.tasks, [&](const std::vector<TaskSpan>& rank) {
          return std::ranges::all_of(rank, [&](const TaskSpan& span) {
            return is_multiple(span.start, slot) && is_multiple(span.end, slot);
          });
        })) {
      return slot;
    }
  }
  return std::nullopt;
}

/// "F3", or "F3b" for the second stage of its rank.
std::string label_of(const PipelineTable& table, const PipelineTask& task, int chunks) {
  std::string label = fmt::format("{}{}", look_of(task.work).letter, task.microbatch);
  if (chunks > 1) {
    label += static_cast<char>('a' + std::min(simulate::chunk_of(table, task), 25));
  }
  return label;
}

/// Writes lines in which every time slot is a cell for a label.
class LabeledLines {
 public:
  LabeledLines(const PipelineReport& report, double slot, bool color)
      : report_(report), slot_(slot), color_(color), chunks_(simulate::max_chunks(report.table)) {
    for (std::size_t rank = 0; rank < report.table.tasks.size(); ++rank) {
      for (std::size_t i = 0; i < report.table.tasks[rank].size(); ++i) {
        const TaskSpan& span = report.timing.tasks[rank][i];
        if (span.end > span.start) {
          const int length = static_cast<int>(slots(span.end - span.start));
          const std::string label = label_of(report.table, report.table.tasks[rank][i], chunks_);
          const int width = static_cast<int>(label.size()) + 1;
          cell_ = std::max(cell_, (width + length - 1) / length);
        }
      }
    }
  }

  [[nodiscard]] double width() const { return slots(report_.timing.makespan) * cell_; }

  [[nodiscard]] std::string line(std::size_t rank) const {
    std::string out;
    double now = 0;
    const std::vector<PipelineTask>& tasks = report_.table.tasks[rank];
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const TaskSpan& span = report_.timing.tasks[rank][i];
      if (span.end <= span.start) {
        continue;
      }
      out += idle(slots(span.start - now));
      const bool updates = i + 1 < tasks.size() && tasks[i + 1].work == PipelineWork::Update &&
                           report_.durations.update == 0;
      out += filled(tasks[i], slots(span.end - span.start), updates ? "*" : " ");
      now = span.end;
    }
    return out + idle(slots(report_.timing.makespan - now));
  }

 private:
  [[nodiscard]] double slots(double time) const { return std::round(time / slot_); }

  [[nodiscard]] std::string idle(double count) const {
    std::string out;
    for (int i = 0; i < static_cast<int>(count); ++i) {
      out += padded(kIdle, cell_);
    }
    return styled(out, Style::Dim, color_ && !out.empty());
  }

  [[nodiscard]] std::string filled(const PipelineTask& task, double count,
                                   std::string_view end) const {
    std::string text = label_of(report_.table, task, chunks_);
    const int width = static_cast<int>(count) * cell_ - 1;
    while (display_width(text) < width) {
      text += color_ ? " " : "─";
    }
    return colored(text, look_of(task.work), color_) + std::string(end);
  }

  const PipelineReport& report_;  // outlives this object, which lives for one call
  double slot_;
  bool color_;
  int chunks_;
  int cell_ = 2;
};

/// Writes lines of one letter per column: what runs in the middle of its time. Lowercase letters
/// are odd micro-batches.
class LetterLines {
 public:
  LetterLines(const PipelineReport& report, int columns, bool color)
      : report_(report), columns_(columns), color_(color) {}

  [[nodiscard]] std::string line(std::size_t rank) const {
    std::string out;
    std::size_t i = 0;
    const std::vector<PipelineTask>& tasks = report_.table.tasks[rank];
    const std::vector<TaskSpan>& spans = report_.timing.tasks[rank];
    for (int column = 0; column < columns_; ++column) {
      const double middle = (column + 0.5) * report_.timing.makespan / columns_;
      while (i < tasks.size() && spans[i].end <= middle) {
        ++i;
      }
      out += i < tasks.size() && spans[i].start <= middle ? letter(tasks[i])
                                                          : styled(kIdle, Style::Dim, color_);
    }
    return out;
  }

 private:
  [[nodiscard]] std::string letter(const PipelineTask& task) const {
    const Look& look = look_of(task.work);
    const char letter =
        task.microbatch % 2 == 0 ? look.letter : static_cast<char>(look.letter - 'A' + 'a');
    return colored(std::string_view(&letter, 1), look, color_);
  }

  const PipelineReport& report_;  // outlives this object, which lives for one call
  int columns_;
  bool color_;
};

std::string work_legend(const PipelineReport& report, bool labeled, bool color) {
  std::string out;
  for (const PipelineWork work : shown_works(report)) {
    const Look& look = look_of(work);
    out += fmt::format("  {} {}", colored(std::string_view(&look.letter, 1), look, color),
                       legend_name(work));
  }
  if (labeled && report.durations.update == 0) {
    out += "  * Update";
  }
  out += fmt::format("  {} Idle", kIdle);
  if (!labeled) {
    out += "; small letters are odd micro-batches";
  } else if (simulate::max_chunks(report.table) > 1) {
    out += "; a, b, … are the stages of a rank";
  }
  return out + "\n";
}

template <class Lines>
std::string all_lines(const PipelineReport& report, const Lines& lines, bool color) {
  std::string out;
  const std::size_t ranks = report.table.tasks.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (ranks > kMaxPrintedRanks && rank == kMaxPrintedRanks - 1) {
      out += fmt::format("  … {} more ranks\n", ranks - kMaxPrintedRanks);
      rank = ranks - 1;
    }
    const std::string name = styled(fmt::format("rank {:<4}", rank), Style::Dim, color);
    out += fmt::format("  {} {}\n", name, lines.line(rank));
  }
  return out;
}

}  // namespace

std::string timeline_text(const PipelineReport& report, const Terminal& terminal) {
  if (report.timing.makespan <= 0) {
    return "  nothing takes any time\n";
  }
  constexpr int kMargin = 12;
  const int room = std::max(terminal.width - kMargin, 20);
  int columns = room;  // of letters
  const std::optional<double> slot = find_slot(report.timing);
  if (slot && std::round(report.timing.makespan / *slot) <= room) {
    columns = static_cast<int>(std::round(report.timing.makespan / *slot));
    const LabeledLines lines(report, *slot, terminal.color);
    if (lines.width() <= room) {
      return all_lines(report, lines, terminal.color) + "\n" +
             work_legend(report, true, terminal.color);
    }
  }
  const LetterLines letters(report, columns, terminal.color);
  return all_lines(report, letters, terminal.color) + "\n" +
         work_legend(report, false, terminal.color);
}

}  // namespace trireme::report
