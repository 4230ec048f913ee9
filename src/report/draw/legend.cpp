#include "report/draw/legend.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "report/draw/layout.h"

namespace trireme::report {
namespace {

using svg::Element;
using svg::Point;

constexpr double kSampleHeight = kSizes.cell_height - 4;

/// A sample, drawn at the origin with its middle at height 0, and its meaning.
struct Item {
  Element sample;
  std::string meaning;
};

Item cell_sample(const CellStyle& look, std::string_view label, std::string meaning) {
  return {draw_cell({0, -kSampleHeight / 2, kSizes.sample_width, kSampleHeight}, look, label),
          std::move(meaning)};
}

Item color_sample(const std::vector<std::string>& colors, std::string meaning) {
  const double width = kSizes.sample_width / static_cast<double>(colors.size());
  Element patches("g");
  double left = 0;
  for (const std::string& color : colors) {
    patches.add(svg::rectangle({left, -kSampleHeight / 2, width, kSampleHeight}, color));
    left += width;
  }
  return {patches, std::move(meaning)};
}

Item arrow_sample(Action action, std::string meaning) {
  const double half = 0.5 * kSizes.cell_height;
  const double x = 0.5 * kSizes.sample_width;
  return {
      draw_arrow(
          {.from = {x - 8, -half - 2}, .bend = -half - 2, .to = {x + 4, half}, .action = action},
          kMixed),
      std::move(meaning)};
}

/// One bar for each line of a rank's cells.
Item line_sample(int lines, std::string meaning) {
  constexpr double kBar = 4;
  const double pitch = kSampleHeight / lines;
  Element bars("g");
  for (int line = 0; line < lines; ++line) {
    bars.add(svg::rectangle(
        {0, -kSampleHeight / 2 + (line + 0.5) * pitch - kBar / 2, kSizes.sample_width, kBar},
        kFaint));
  }
  return {bars, std::move(meaning)};
}

/// What appears in the picture, and so needs an explanation.
struct Appearances {
  bool empty = false;
  bool plain = false;
  bool final = false;
  bool spent = false;
  bool copy = false;
  bool combine = false;
  bool idle = false;
};

Appearances find_appearances(const LegendContent& content) {
  Appearances seen;
  for (const Snapshot& snapshot : content.snapshots) {
    for (Rank rank = 0; rank < content.schedule.ranks; ++rank) {
      for (const Slot& slot : content.grid.ranks[rank]) {
        const CellState state = cell_state(content.schedule, snapshot, rank, slot.block);
        seen.empty |= state.contributors == 0;
        seen.final |= state.finished;
        seen.spent |= state.spent;
        seen.plain |= state.contributors > 0 && !state.finished && !state.spent;
      }
    }
  }
  for (const Step& step : content.schedule.steps) {
    for_each_message(step, [&](const Message& m) {
      (m.action == Action::Copy ? seen.copy : seen.combine) = true;
    });
    seen.idle |= std::ranges::count(Activity(content.schedule, step).busy, false) > 0;
  }
  return seen;
}

void add_cells(const LegendContent& content, const Appearances& seen, std::vector<Item>& items) {
  const auto add = [&](const CellState& state, std::string_view label, std::string meaning) {
    items.push_back(cell_sample(cell_style(state, content.colors, 0), label, std::move(meaning)));
  };
  if (seen.empty) {
    add({}, "", "empty");
  }
  const CellLabels::Example example = content.labels.example();
  const double all = content.labels.tell_contributors() ? content.schedule.ranks : 1;
  if (seen.plain) {
    add({.contributors = example.contributors, .share = example.contributors / all}, example.label,
        example.meaning);
  }
  if (seen.final) {
    add({.contributors = 1, .share = 1, .finished = true}, seen.plain ? "" : example.label,
        seen.plain ? "final" : example.meaning + ", final");
  }
  if (seen.spent) {
    add({.contributors = 1, .share = 1, .spent = true}, "", "not needed any more");
  }
}

void add_colors(const LegendContent& content, std::vector<Item>& items) {
  const bool by_source = content.schedule.layout == Layout::Pairs;
  const Block last = content.schedule.blocks - 1;
  std::vector<std::string> colors;
  for (const Block block : {Block{0}, (last + 1) / 2, last}) {
    colors.push_back(content.colors.fill(block, 1));
  }
  items.push_back(color_sample(colors, by_source ? "color: the source rank" : "color: the block"));
  if (by_source) {
    items.push_back(line_sample(content.grid.lines, content.grid.lines > kPassingLine
                                                        ? "for others, for the rank, in passing"
                                                        : "for others, for the rank"));
  }
}

std::vector<Item> make_items(const LegendContent& content) {
  const Appearances seen = find_appearances(content);
  std::vector<Item> items;
  add_cells(content, seen, items);
  if (content.schedule.blocks > 1) {
    add_colors(content, items);
  }
  if (seen.copy) {
    items.push_back(arrow_sample(Action::Copy, "copied"));
  }
  if (seen.combine) {
    items.push_back(arrow_sample(Action::Combine, "combined with what is there"));
  }
  if (seen.idle) {
    items.push_back(color_sample({std::string(kLane)}, "rank is busy (white: idle)"));
  }
  return items;
}

}  // namespace

Element draw_legend(const LegendContent& content, svg::Box& area) {
  const double text_left = kSizes.sample_width + 8;
  Element legend = svg::group("legend");
  Point at{area.x, area.y + kSizes.legend_line / 2};
  for (const Item& item : make_items(content)) {
    const double width = text_left + svg::text_width(item.meaning, kSizes.note_size);
    if (at.x > area.x && at.x + width > area.x + area.width) {
      at = {area.x, at.y + kSizes.legend_line};
    }
    Element placed("g");
    placed.set("transform", fmt::format("translate({:.1f} {:.1f})", at.x, at.y));
    placed.add(item.sample);
    placed.add(svg::words({text_left, 0.36 * kSizes.note_size}, item.meaning,
                          {.size = kSizes.note_size, .color = kQuiet}));
    legend.add(placed);
    at.x += width + kSizes.legend_gap;
  }
  area.height = at.y + kSizes.legend_line / 2 - area.y;
  return legend;
}

}  // namespace trireme::report
