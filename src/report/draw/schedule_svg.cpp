// A schedule as a diagram. Ranks are columns, time runs down: rows of cells show what every rank
// holds, the gaps between them the messages of a step. A rank's lane is gray where the rank sends
// or receives and white where it idles.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "report/draw/drawing.h"
#include "report/draw/glyphs.h"
#include "report/draw/labels.h"
#include "report/draw/layout.h"
#include "report/draw/legend.h"
#include "report/draw/states.h"
#include "report/draw/svg.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using svg::Box;
using svg::Element;
using svg::Point;

std::string title_text(const Schedule& schedule, Bytes bytes) {
  std::string text = fmt::format("{} · {} · {}", to_text(schedule.operation), schedule.algorithm,
                                 plural(schedule.ranks, "rank"));
  if (has_root(schedule.operation)) {
    text += fmt::format(" · root {}", schedule.root);
  }
  return bytes.count > 0 ? text + " · " + to_text(bytes) : text;
}

std::string subtitle_text(const Schedule& schedule, Seconds seconds, Seconds bound) {
  std::string text =
      fmt::format("{}, {} predicted", plural(std::ssize(schedule.steps), "step"), to_text(seconds));
  if (bound.count > 0) {
    text += fmt::format(" = {:.2f} × the lower bound of {}", seconds.count / bound.count,
                        to_text(bound));
  }
  return text;
}

class ScheduleArtist {
 public:
  ScheduleArtist(const Schedule& schedule, const ScheduleDrawing& drawing)
      : schedule_(schedule),
        payload_(drawing.payload),
        timing_(time_schedule(schedule, drawing.payload, drawing.costs)),
        title_(title_text(schedule, bytes())),
        subtitle_(subtitle_text(
            schedule, timing_.seconds,
            lower_bound(schedule.operation, schedule.ranks, drawing.payload, drawing.costs))),
        grid_(lay_out_cells(schedule)),
        snapshots_(take_snapshots(schedule, shown_moments(schedule.steps.size()))),
        labels_(schedule, snapshots_,
                {.size = kSizes.label_size,
                 .room = grid_.columns <= 2 ? kSizes.wide_label_room : kSizes.label_room}),
        colors_(schedule),
        layout_({.schedule = schedule_,
                 .grid = grid_,
                 .snapshots = snapshots_,
                 .widest_label = labels_.widest(),
                 .title_width = std::max(svg::text_width(title_, kSizes.title_size),
                                         svg::text_width(subtitle_, kSizes.subtitle_size))}) {}

  [[nodiscard]] std::string draw() const {
    Element canvas("g");
    canvas.add(draw_title()).add(draw_header());
    const std::size_t rows = snapshots_.size();
    for (std::size_t row = 0; row + 1 < rows; ++row) {
      canvas.add(is_elided(snapshots_, row) ? draw_elision(row) : draw_step(row));
    }
    for (std::size_t row = 0; row < rows; ++row) {
      canvas.add(draw_row(row));
    }
    double top = layout_.last_bottom() + kSizes.legend_top;
    if (schedule_.steps.empty()) {
      canvas.add(draw_nothing(top));
      top += kSizes.legend_top;
    }
    Box area{kSizes.margin, top, layout_.width() - 2 * kSizes.margin, 0};
    canvas.add(draw_legend({schedule_, grid_, snapshots_, labels_, colors_}, area));
    return svg::write({layout_.width(), area.y + area.height + kSizes.margin, title_}, canvas);
  }

 private:
  [[nodiscard]] Bytes bytes() const { return {payload_.elements * payload_.element_bytes}; }

  [[nodiscard]] const Step& step_below(std::size_t row) const {
    return schedule_.steps[snapshots_[row].steps_done];
  }

  [[nodiscard]] Element draw_title() const {
    const Geometry& g = kSizes;
    const double base = g.margin + g.title_size;
    Element head = svg::group("title");
    head.add(svg::words({g.margin, base}, title_, {.size = g.title_size, .weight = "bold"}));
    head.add(svg::words({g.margin, base + 1.7 * g.subtitle_size}, subtitle_,
                        {.size = g.subtitle_size, .color = kQuiet}));
    return head;
  }

  [[nodiscard]] Element draw_header() const {
    const bool numbered = labels_.tell_contributors() && grid_.lines == 1 && schedule_.blocks > 1;
    const double numbers_base = layout_.row_top(0) - 6;
    const double names_base = numbers_base - (numbered ? kSizes.header_line : 2);
    Element header = svg::group("header");
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      const Point at{layout_.rank_middle(rank), names_base};
      header.add(svg::words(at, rank_name(schedule_, rank),
                            {.size = kSizes.rank_size, .anchor = "middle", .weight = "bold"}));
      if (has_root(schedule_.operation) && rank == schedule_.root) {
        header.add(svg::words({at.x, at.y - kSizes.header_line}, "root",
                              {.size = kSizes.note_size, .color = kQuiet, .anchor = "middle"}));
      }
      if (numbered) {
        header.add(draw_block_numbers(rank, numbers_base));
      }
    }
    return header;
  }

  [[nodiscard]] Element draw_block_numbers(Rank rank, double base) const {
    Element numbers = svg::group("numbers");
    for (const Slot& slot : grid_.ranks[rank]) {
      const Box box = layout_.cell(0, rank, slot);
      const std::string ink = colors_.ink(slot.block);
      numbers.add(svg::words({box.x + box.width / 2, base}, fmt::format("{}", slot.block),
                             {.size = kSizes.label_size, .color = ink, .anchor = "middle"}));
    }
    return numbers;
  }

  [[nodiscard]] Element draw_row(std::size_t row) const {
    const std::size_t done = snapshots_[row].steps_done;
    Seconds passed;
    for (std::size_t t = 0; t < done; ++t) {
      passed.count += timing_.steps[t].count;
    }
    const double middle = (layout_.row_top(row) + layout_.row_bottom(row)) / 2;
    Element state = svg::group("row");
    state.add(svg::words({kSizes.margin, middle + 4},
                         done == 0 ? "start" : "after " + to_text(passed),
                         {.size = kSizes.note_size, .color = kQuiet}));
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      state.add(draw_rank(row, rank));
    }
    return state;
  }

  [[nodiscard]] Element draw_rank(std::size_t row, Rank rank) const {
    Element cells = svg::group("rank");
    cells.set("data-rank", rank);
    const Snapshot& snapshot = snapshots_[row];
    // Finished cells come last: their bold rims must not be painted over by their neighbors.
    for (const bool finished : {false, true}) {
      for (const Slot& slot : grid_.ranks[rank]) {
        const CellState state = cell_state(schedule_, snapshot, rank, slot.block);
        const bool hidden = state.contributors == 0 && is_passing(slot);
        if (state.finished == finished && !hidden) {
          cells.add(draw_cell(layout_.cell(row, rank, slot), cell_style(state, colors_, slot.block),
                              labels_.cell(snapshot, rank, slot.block)));
        }
      }
    }
    return cells;
  }

  [[nodiscard]] bool is_passing(const Slot& slot) const {
    return schedule_.layout == Layout::Pairs && slot.line >= kPassingLine;
  }

  [[nodiscard]] Element draw_step(std::size_t row) const {
    const std::size_t number = snapshots_[row].steps_done;
    const Activity activity(schedule_, step_below(row));
    Element step = svg::group("step");
    step.set("data-step", static_cast<double>(number + 1));
    step.add(draw_lanes(row, activity));
    step.add(draw_note({kSizes.margin, layout_.gap_middle(row)}, number, activity));
    for_each_message(step_below(row), [&](const Message& m) { step.add(draw_message(row, m)); });
    // After all arrows, so that none runs over a label.
    if (schedule_.blocks > 1) {
      for_each_message(step_below(row), [&](const Message& m) { step.add(draw_label(row, m)); });
    }
    return step;
  }

  [[nodiscard]] Element draw_lanes(std::size_t row, const Activity& activity) const {
    Element lanes = svg::group("lanes");
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      const Box box = layout_.lane(row, rank);
      if (activity.busy[rank]) {
        lanes.add(svg::rectangle(box, kLane));
      } else if (box.width >= kSizes.narrowest_idle) {
        lanes.add(svg::words({box.x + box.width / 2, box.y + kSizes.note_line}, "idle",
                             {.size = kSizes.label_size, .color = kFaint, .anchor = "middle"}));
      }
    }
    return lanes;
  }

  [[nodiscard]] Element draw_note(Point middle, std::size_t number,
                                  const Activity& activity) const {
    const Geometry& g = kSizes;
    const Point senders{middle.x, middle.y + 4};
    Element note = svg::group("note");
    note.add(svg::words({senders.x, senders.y - g.note_line},
                        fmt::format("step {}: {}", number + 1, to_text(timing_.steps[number])),
                        {.size = g.note_size + 1, .weight = "bold"}));
    note.add(svg::words(senders,
                        fmt::format("{} of {} ranks send", activity.senders(), schedule_.ranks),
                        {.size = g.note_size, .color = kQuiet}));
    return note.add(draw_busy_bar({senders.x, senders.y + 7}, activity));
  }

  /// One tick for each rank, dark where it sends.
  [[nodiscard]] Element draw_busy_bar(Point at, const Activity& activity) const {
    const double tick = kSizes.busy_bar_width / schedule_.ranks;
    const double between = std::min(2.0, 0.25 * tick);
    Element bar = svg::group("busy");
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      bar.add(svg::rectangle({at.x + rank * tick, at.y, tick - between, kSizes.busy_bar_height},
                             activity.sends[rank] ? kMixed : kLane));
    }
    return bar;
  }

  [[nodiscard]] Element draw_message(std::size_t row, const Message& m) const {
    const std::string color = colors_.ink(m.blocks);
    Element message = svg::group("message");
    message.set("data-from", m.from).set("data-to", m.to);
    message.add(svg::tooltip(describe(m)));
    message.add(draw_bars(row, m, color));
    return message.add(draw_arrow({.from = tail(row, m),
                                   .bend = layout_.row_bottom(row) + 2 * kSizes.bar,
                                   .to = tip(row, m),
                                   .action = m.action},
                                  color));
  }

  /// Below the lowest of the cells that are sent. Cells below that one cover the line.
  [[nodiscard]] Point tail(std::size_t row, const Message& m) const {
    double bottom = layout_.row_top(row);
    for_each_block(m.blocks, [&](Block block) {
      const Box box = layout_.cell(row, m.from, grid_.find(m.from, block));
      bottom = std::max(bottom, box.y + box.height);
    });
    return {message_x(row, m.from, m), bottom + 2 * kSizes.bar};
  }

  [[nodiscard]] Point tip(std::size_t row, const Message& m) const {
    return {message_x(row + 1, m.to, m), layout_.row_top(row + 1) - 2 * kSizes.bar};
  }

  /// Next to the head, on the side away from the arrow.
  [[nodiscard]] Element draw_label(std::size_t row, const Message& m) const {
    const bool from_right = m.from > m.to;
    const Point to = tip(row, m);
    const double away = from_right ? -kSizes.label_distance : kSizes.label_distance;
    return svg::words({to.x + away, to.y - kSizes.arrow_head}, arrow_text(m),
                      {.size = kSizes.label_size,
                       .color = colors_.ink(m.blocks),
                       .anchor = from_right ? "end" : "start",
                       .weight = "bold",
                       .halo = 3});
  }

  /// In words if the numbers in the cells are not block numbers.
  [[nodiscard]] std::string arrow_text(const Message& m) const {
    const std::string full = labels_.message_in_words(m.blocks);
    const bool several = full.starts_with("blocks");
    const bool fits = svg::text_width(full, kSizes.label_size) <= layout_.arrow_label_room(several);
    return labels_.tell_contributors() && fits ? full : labels_.message(m.blocks);
  }

  /// Below the cells that are sent and above those that are received.
  [[nodiscard]] Element draw_bars(std::size_t row, const Message& m, std::string_view color) const {
    Element bars = svg::group("bars");
    for_each_block(m.blocks, [&](Block block) {
      const Box sent = layout_.cell(row, m.from, grid_.find(m.from, block));
      const Box got = layout_.cell(row + 1, m.to, grid_.find(m.to, block));
      bars.add(svg::rectangle({sent.x, sent.y + sent.height + 1, sent.width, kSizes.bar}, color));
      bars.add(svg::rectangle({got.x, got.y - 1 - kSizes.bar, got.width, kSizes.bar}, color));
    });
    return bars;
  }

  /// The middle of the message's blocks in the cells of a rank.
  [[nodiscard]] double message_x(std::size_t row, Rank rank, const Message& m) const {
    double sum = 0;
    int count = 0;
    for_each_block(m.blocks, [&](Block block) {
      const Box box = layout_.cell(row, rank, grid_.find(rank, block));
      sum += box.x + box.width / 2;
      ++count;
    });
    return count == 0 ? layout_.rank_middle(rank) : sum / count;
  }

  [[nodiscard]] std::string describe(const Message& m) const {
    const Bytes size{element_count(schedule_, payload_.elements, m.blocks) *
                     payload_.element_bytes};
    return fmt::format("rank {} to rank {}: {}, {}, {}", m.from, m.to,
                       labels_.message_in_words(m.blocks), to_text(size),
                       m.action == Action::Combine ? "combined" : "copied");
  }

  [[nodiscard]] Element draw_elision(std::size_t row) const {
    const std::size_t first = snapshots_[row].steps_done + 1;
    const std::size_t last = snapshots_[row + 1].steps_done;
    const double base = layout_.gap_middle(row) + 5;
    Element elision = svg::group("elision");
    elision.add(svg::words({kSizes.margin, base},
                           fmt::format("{} more steps: {} to {}", last - first + 1, first, last),
                           {.size = kSizes.note_size + 1, .weight = "bold"}));
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      elision.add(svg::words({layout_.rank_middle(rank), base}, "⋮",
                             {.size = kSizes.title_size, .color = kQuiet, .anchor = "middle"}));
    }
    return elision;
  }

  [[nodiscard]] Element draw_nothing(double base) const {
    return svg::words({kSizes.margin, base},
                      schedule_.ranks == 1 ? "Nothing to do: the only rank has the result already."
                                           : "There are no steps.",
                      {.size = kSizes.subtitle_size});
  }

  const Schedule& schedule_;
  Payload payload_;
  Timing timing_;
  std::string title_;
  std::string subtitle_;
  CellGrid grid_;
  std::vector<Snapshot> snapshots_;
  CellLabels labels_;
  BlockColors colors_;
  ScheduleLayout layout_;
};

}  // namespace

std::string schedule_svg(const Schedule& schedule, const ScheduleDrawing& drawing) {
  require_drawable(schedule);
  return ScheduleArtist(schedule, drawing).draw();
}

}  // namespace trireme::report
