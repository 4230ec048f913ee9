#include "report/draw/layout.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace trireme::report {
namespace {

constexpr Rank kManyRanks = 17;
constexpr int kManyLines = 3;

}  // namespace

Activity::Activity(const Schedule& schedule, const Step& step)
    : sends(schedule.ranks), busy(sends) {
  for_each_message(step, [&](const Message& m) {
    sends[m.from] = true;
    busy[m.from] = true;
    busy[m.to] = true;
    furthest = std::max(furthest, std::abs(m.from - m.to));
  });
}

std::ptrdiff_t Activity::senders() const {
  return std::ranges::count(sends, true);
}

ScheduleLayout::ScheduleLayout(const Content& content) {
  place_columns(content);
  place_rows(content);
}

void ScheduleLayout::place_columns(const Content& content) {
  const Geometry& g = kSizes;
  const CellGrid& grid = content.grid;
  const Rank ranks = content.schedule.ranks;
  left_ = g.margin + g.side_width + g.side_gap;
  rank_gap_ = ranks < kManyRanks ? g.rank_gap : g.narrow_rank_gap;
  const double room = (g.widest_picture - left_ - g.margin) / ranks - rank_gap_;
  const double preferred = std::max(content.widest_label + 2 * g.cell_padding, g.cell_height);
  cell_width_ = std::clamp(room / grid.columns, g.narrowest_cell, preferred);
  const double name_width = svg::text_width(rank_name(content.schedule, ranks - 1), g.rank_size);
  rank_width_ = std::max(cell_width_ * grid.columns, name_width);
  indent_ = (rank_width_ - cell_width_ * grid.columns) / 2;
  width_ =
      std::max(rank_left(ranks) - rank_gap_ + g.label_overhang, g.margin + content.title_width) +
      g.margin;
}

void ScheduleLayout::place_rows(const Content& content) {
  const int lines = content.grid.lines;
  cell_height_ = lines < kManyLines ? kSizes.cell_height : kSizes.low_cell_height;
  row_height_ = lines * cell_height_ + (lines - 1) * kSizes.line_gap;
  double top = kSizes.margin + kSizes.title_height + kSizes.header_height;
  for (std::size_t row = 0; row < content.snapshots.size(); ++row) {
    row_tops_.push_back(top);
    top += row_height_;
    if (row + 1 < content.snapshots.size()) {
      top += gap_below(content, row);
    }
  }
}

double ScheduleLayout::gap_below(const Content& content, std::size_t row) const {
  if (is_elided(content.snapshots, row)) {
    return kSizes.elision_gap;
  }
  const Step& step = content.schedule.steps[content.snapshots[row].steps_done];
  const double pitch = rank_width_ + rank_gap_;
  const double distance = Activity(content.schedule, step).furthest * pitch;
  return std::clamp(kSizes.smallest_gap + kSizes.gap_per_distance * (distance - pitch),
                    kSizes.smallest_gap, kSizes.largest_gap);
}

double ScheduleLayout::gap_middle(std::size_t row) const {
  return (row_bottom(row) + row_top(row + 1)) / 2;
}

double ScheduleLayout::arrow_label_room(bool several_blocks) const {
  const double to_the_next =
      rank_gap_ + cell_width_ - kSizes.label_distance - 2 * kSizes.plus_radius;
  return several_blocks ? std::max(to_the_next, rank_width_ / 2) : to_the_next;
}

svg::Box ScheduleLayout::cell(std::size_t row, Rank rank, const Slot& slot) const {
  return {rank_left(rank) + indent_ + slot.column * cell_width_,
          row_top(row) + slot.line * (cell_height_ + kSizes.line_gap), cell_width_, cell_height_};
}

svg::Box ScheduleLayout::lane(std::size_t row, Rank rank) const {
  return {rank_left(rank) - kSizes.lane_padding, row_bottom(row),
          rank_width_ + 2 * kSizes.lane_padding, row_top(row + 1) - row_bottom(row)};
}

std::string rank_name(const Schedule& schedule, Rank rank) {
  return schedule.ranks < kManyRanks ? fmt::format("rank {}", rank) : fmt::format("{}", rank);
}

bool is_elided(const std::vector<Snapshot>& snapshots, std::size_t row) {
  return row + 1 < snapshots.size() &&
         snapshots[row + 1].steps_done > snapshots[row].steps_done + 1;
}

}  // namespace trireme::report
