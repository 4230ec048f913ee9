// The positions of everything in a picture of a schedule. Plain values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/indexed_vector.h"
#include "report/draw/palette.h"
#include "report/draw/states.h"
#include "report/draw/svg.h"
#include "trireme/schedule.h"

namespace trireme::report {

/// All sizes in SVG units; one unit is a pixel on a standard display.
struct Geometry {
  double margin = 28;
  double widest_picture = 2400;  ///< cells shrink to fit; labels are then omitted

  double title_size = 22;
  double subtitle_size = 14;
  double title_height = 66;

  double side_width = 150;  ///< the notes next to the steps
  double side_gap = 16;
  double note_size = 12;
  double note_line = 16;
  double busy_bar_width = 120;
  double busy_bar_height = 7;

  double header_height = 44;  ///< the word root, rank names, block numbers
  double header_line = 14;
  double rank_size = 13;
  double rank_gap = 24;
  double narrow_rank_gap = 14;  ///< with many ranks
  double lane_padding = 6;

  double cell_height = 22;
  double low_cell_height = 16;  ///< if a rank's cells take three lines or more
  double narrowest_cell = 7;
  double cell_padding = 4;
  double label_size = 10;
  double label_room = 36;       ///< for a list of contributors
  double wide_label_room = 64;  ///< the same if a rank has one or two cells
  double line_gap = 7;          ///< between the lines of a rank's cells
  double bar = 2;               ///< thickness of the marks on cells that are sent and received

  double smallest_gap = 66;
  double largest_gap = 104;
  double gap_per_distance = 0.03;  ///< a message over a long distance gets more height
  double elision_gap = 60;
  double arrow_width = 1.6;
  double arrow_head = 7;
  double plus_radius = 5.5;
  double label_distance = 8.5;  ///< from the tip of an arrow
  double label_overhang = 16;   ///< extra width that the last rank's labels may need on the right
  double narrowest_idle = 44;   ///< a lane in which the word fits

  double legend_top = 40;
  double legend_gap = 26;
  double legend_line = 32;
  double sample_width = 30;
};
inline constexpr Geometry kSizes;

inline constexpr std::string_view kFaint = "#aeb4bd";
inline constexpr std::string_view kLane = "#eef0f3";
inline constexpr std::string_view kMixed = "#4b5563";  ///< messages with blocks of several colors

/// The ranks that are active in a step.
struct Activity {
  IndexedVector<Rank, bool> sends;
  IndexedVector<Rank, bool> busy;  ///< sends or receives
  Rank furthest = 0;               ///< the largest distance between a sender and its receiver

  Activity(const Schedule& schedule, const Step& step);
  [[nodiscard]] std::ptrdiff_t senders() const;
};

/// Columns for ranks, rows of cells for moments, gaps between the rows for steps.
class ScheduleLayout {
 public:
  /// The contents to lay out. `widest_label` is the widest cell label.
  struct Content {
    const Schedule& schedule;
    const CellGrid& grid;
    const std::vector<Snapshot>& snapshots;
    double widest_label = 0;
    double title_width = 0;
  };
  explicit ScheduleLayout(const Content& content);

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double row_top(std::size_t row) const { return row_tops_[row]; }
  [[nodiscard]] double row_bottom(std::size_t row) const { return row_tops_[row] + row_height_; }
  [[nodiscard]] double last_bottom() const { return row_tops_.back() + row_height_; }
  /// The middle of the gap below a row.
  [[nodiscard]] double gap_middle(std::size_t row) const;
  [[nodiscard]] double rank_middle(Rank rank) const { return rank_left(rank) + rank_width_ / 2; }
  /// The maximum width of a label next to an arrow's head that does not reach the next rank's
  /// arrow.
  [[nodiscard]] double arrow_label_room(bool several_blocks) const;
  [[nodiscard]] svg::Box cell(std::size_t row, Rank rank, const Slot& slot) const;
  /// A rank's part of the gap below a row.
  [[nodiscard]] svg::Box lane(std::size_t row, Rank rank) const;

 private:
  void place_columns(const Content& content);
  void place_rows(const Content& content);
  [[nodiscard]] double gap_below(const Content& content, std::size_t row) const;
  [[nodiscard]] double rank_left(Rank rank) const {
    return left_ + rank * (rank_width_ + rank_gap_);
  }

  double left_ = 0;
  double width_ = 0;
  double cell_width_ = 0;
  double cell_height_ = 0;
  double rank_width_ = 0;
  double rank_gap_ = 0;
  double row_height_ = 0;
  double indent_ = 0;  ///< of the cells in a rank's column
  std::vector<double> row_tops_;
};

/// "rank 3", or "3" if there are many.
[[nodiscard]] std::string rank_name(const Schedule& schedule, Rank rank);

/// Whether steps were omitted between this snapshot and the next.
[[nodiscard]] bool is_elided(const std::vector<Snapshot>& snapshots, std::size_t row);

}  // namespace trireme::report
