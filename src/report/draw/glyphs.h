// The symbols in a picture of a schedule: cells and arrows. Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/draw/layout.h"
#include "report/draw/palette.h"
#include "report/draw/states.h"
#include "report/draw/svg.h"
#include "trireme/schedule.h"

namespace trireme::report {

/// The color of a block: its own, or in an all-to-all that of its source rank.
class BlockColors {
 public:
  explicit BlockColors(const Schedule& schedule);
  [[nodiscard]] std::string fill(Block block, double strength) const;
  /// For lines: the color that all the blocks have, or a neutral one.
  [[nodiscard]] std::string ink(std::span<const BlockRun> blocks) const;
  [[nodiscard]] std::string ink(Block block) const { return palette_.ink(hue(block)); }

 private:
  [[nodiscard]] std::size_t hue(Block block) const;
  Block blocks_per_hue_;
  Palette palette_;
};

/// A cell's appearance, independent of its position.
struct CellStyle {
  std::string fill = "#ffffff";
  std::string_view rim = "#c3c8d0";
  double rim_width = 1;
  std::string_view dashes = {};
  double opacity = 1;
};
/// Hollow if empty, stronger the more contributions are in it, with a bold rim if finished, faded
/// if spent.
[[nodiscard]] CellStyle cell_style(const CellState& state, const BlockColors& colors, Block block);

/// Omits the label if it is too wide for the box.
[[nodiscard]] svg::Element draw_cell(const svg::Box& box, const CellStyle& look,
                                     std::string_view label);

/// A line that runs from `from` straight down to `bend` and then reaches `to` from above; a combine
/// has a plus at its head.
struct Arrow {
  svg::Point from;
  double bend = 0;
  svg::Point to;
  Action action = Action::Copy;
};
[[nodiscard]] svg::Element draw_arrow(const Arrow& arrow, std::string_view color);

}  // namespace trireme::report
