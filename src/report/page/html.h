// Pieces of the report page: panels, tables with machine-readable numbers, legends, bars. Plain values; any thread.
//
// Every number in a table also stands in full precision in attributes of its cell, so that the page can be read by
// programs: <td data-key="loss" data-value="2.3025850929940455">2.303</td>. The table names its source (data-source) and
// its run (data-run), the row its step, rank or op.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/draw/svg.h"

namespace trireme::report {

using svg::Element;

/// An element with a class, if any, and a text.
[[nodiscard]] Element html(std::string_view tag, std::string_view css_class = {},
                           std::string_view text = {});

/// A section with its heading; `wide` takes the whole width of the page.
struct PanelFrame {
  std::string_view id;
  std::string_view title;
  std::string_view about;  ///< one or two sentences below the heading
  bool wide = false;
};
[[nodiscard]] Element panel(const PanelFrame& frame);

/// The content of a panel if the run has not recorded its data.
[[nodiscard]] Element not_recorded(std::string_view why);

/// A part of a bar, in percent of the cell's width.
struct BarPart {
  double start = 0;
  double width = 0;
  std::string_view color;  ///< a class: "c1", "wait"
};

struct Cell {
  std::string text{};
  std::string key{};  ///< of the value; "": the cell is not a number
  double value = 0;
  std::vector<BarPart> bar{};  ///< instead of the text
};
[[nodiscard]] Cell number_cell(std::string_view key, double value, std::string text);
[[nodiscard]] Cell text_cell(std::string text);
[[nodiscard]] Cell bar_cell(std::vector<BarPart> parts);

struct Row {
  std::vector<Cell> cells{};  ///< the first is the row's heading
  std::vector<std::pair<std::string, std::string>> attributes{};  ///< {"data-step", "3"}
  std::string_view css_class{};
};

struct Table {
  std::string caption{};
  std::vector<std::string> headings{};
  std::vector<Row> rows{};
  std::string_view source{};  ///< the file that the numbers are from
  std::size_t run = 0;
};
/// In a region that scrolls sideways, also by keyboard, if the table is wider than the screen.
[[nodiscard]] Element draw(const Table& table);
/// The same, folded up under `summary`.
[[nodiscard]] Element folded(std::string_view summary, const Table& table);

/// Colors and their meanings.
struct LegendEntry {
  std::string_view color;  ///< a class
  std::string text{};
};
[[nodiscard]] Element legend(const std::vector<LegendEntry>& entries);

// Numbers as people read them.

[[nodiscard]] std::string loss_text(double loss);
[[nodiscard]] std::string seconds_text(double seconds);        ///< "1.5 ms"
[[nodiscard]] std::string rate_text(double units_per_second);  ///< "61.2 k"
[[nodiscard]] std::string share_text(double share);            ///< "12.5 %"

}  // namespace trireme::report
