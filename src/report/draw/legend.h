// The legend of a picture of a schedule. Pure functions; any thread.
#pragma once

#include <vector>

#include "report/draw/glyphs.h"
#include "report/draw/labels.h"
#include "report/draw/states.h"
#include "report/draw/svg.h"
#include "trireme/schedule.h"

namespace trireme::report {

/// The content that the legend explains, by reference.
struct LegendContent {
  const Schedule& schedule;
  const CellGrid& grid;
  const std::vector<Snapshot>& snapshots;
  const CellLabels& labels;
  const BlockColors& colors;
};

/// Samples of the symbols in the picture and their meanings, from left to right, on as many lines
/// as necessary. `area` gives the top left corner and the width; its height is set to what was
/// used.
[[nodiscard]] svg::Element draw_legend(const LegendContent& content, svg::Box& area);

}  // namespace trireme::report
