// The labels of cells and arrows in a picture of a schedule. Callable from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/draw/states.h"
#include "trireme/schedule.h"

namespace trireme::report {

/// One labeling scheme for a whole picture, so that equal labels always mean the same.
class CellLabels {
 public:
  /// If contributions are combined, a cell names the ranks in it, if all these lists are at most
  /// `room` wide at this font size; else their number. Otherwise it names its block, if there is
  /// more than one. The schedule must outlive the labels.
  struct Fit {
    double size = 0;
    double room = 0;
  };
  CellLabels(const Schedule& schedule, const std::vector<Snapshot>& snapshots, const Fit& fit);

  /// "" for an empty cell.
  [[nodiscard]] std::string cell(const Snapshot& snapshot, Rank rank, Block block) const;
  /// The blocks of a message in a few characters: "3", "0–3", "12 blocks".
  [[nodiscard]] std::string message(std::span<const BlockRun> blocks) const;
  /// The same in words: "block 3", "blocks 0–3", "12 blocks".
  [[nodiscard]] std::string message_in_words(std::span<const BlockRun> blocks) const;

  /// A label and its meaning, for the legend.
  struct Example {
    std::string label;
    Rank contributors = 1;
    std::string meaning;
  };
  [[nodiscard]] Example example() const;
  /// Whether a cell does not name its block.
  [[nodiscard]] bool tell_contributors() const {
    return style_ == Style::Contributors || style_ == Style::Count;
  }
  /// The widest cell label of the picture.
  [[nodiscard]] double widest() const { return widest_; }

 private:
  enum class Style { None, Block, Pair, Contributors, Count };
  [[nodiscard]] std::string block_name(Block block) const;
  [[nodiscard]] double measure(const std::vector<Snapshot>& snapshots, double size) const;

  const Schedule& schedule_;
  Style style_ = Style::Block;
  double widest_ = 0;
};

}  // namespace trireme::report
