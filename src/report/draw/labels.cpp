#include "report/draw/labels.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/draw/svg.h"

namespace trireme::report {
namespace {

constexpr std::size_t kMaxBlocksNamed = 4;

std::string contributor_list(const Schedule& schedule, const Snapshot& snapshot, Rank rank,
                             Block block) {
  std::vector<Block> ranks;
  for (Rank other = 0; other < schedule.ranks; ++other) {
    if (snapshot.holdings.contains(rank, block, other)) {
      ranks.push_back(other);
    }
  }
  return range_text(ranks);
}

}  // namespace

CellLabels::CellLabels(const Schedule& schedule, const std::vector<Snapshot>& snapshots,
                       const Fit& fit)
    : schedule_(schedule) {
  if (schedule.layout == Layout::Pairs) {
    style_ = Style::Pair;
  } else if (combines(schedule.operation) || schedule.operation == Operation::Barrier) {
    style_ = Style::Contributors;
  } else if (schedule.blocks == 1) {
    style_ = Style::None;
  }
  widest_ = measure(snapshots, fit.size);
  if (style_ == Style::Contributors && widest_ > fit.room) {
    style_ = Style::Count;
    widest_ = measure(snapshots, fit.size);
  }
}

double CellLabels::measure(const std::vector<Snapshot>& snapshots, double size) const {
  double widest = 0;
  for (const Snapshot& snapshot : snapshots) {
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      for (Block block = 0; block < schedule_.blocks; ++block) {
        widest = std::max(widest, svg::text_width(cell(snapshot, rank, block), size));
      }
    }
  }
  return widest;
}

std::string CellLabels::block_name(Block block) const {
  return style_ == Style::Pair
             ? fmt::format("{}→{}", block / schedule_.ranks, block % schedule_.ranks)
             : fmt::format("{}", block);
}

std::string CellLabels::cell(const Snapshot& snapshot, Rank rank, Block block) const {
  const Rank contributors = snapshot.holdings.contributors(rank, block);
  if (contributors == 0) {
    return {};
  }
  switch (style_) {
    case Style::None:
      return {};
    case Style::Block:
    case Style::Pair:
      return block_name(block);
    case Style::Contributors:
      return contributor_list(schedule_, snapshot, rank, block);
    case Style::Count:
      return fmt::format("{}/{}", contributors, schedule_.ranks);
  }
  return {};
}

std::string CellLabels::message(std::span<const BlockRun> blocks) const {
  std::vector<Block> sorted;
  for_each_block(blocks, [&](Block block) { sorted.push_back(block); });
  if (sorted.size() == 1) {
    return block_name(sorted.front());
  }
  std::ranges::sort(sorted);
  const bool in_a_row =
      !sorted.empty() && sorted.back() - sorted.front() + 1 == static_cast<Block>(sorted.size());
  if (style_ != Style::Pair && (in_a_row || sorted.size() <= kMaxBlocksNamed)) {
    return range_text(sorted);
  }
  return fmt::format("{} blocks", sorted.size());
}

std::string CellLabels::message_in_words(std::span<const BlockRun> blocks) const {
  std::string short_text = message(blocks);
  if (short_text.ends_with(" blocks")) {
    return short_text;
  }
  const bool one = blocks.size() == 1 && blocks.front().count == 1;
  return fmt::format("block{} {}", one ? "" : "s", short_text);
}

CellLabels::Example CellLabels::example() const {
  const Rank few = schedule_.ranks > 2 ? 2 : 1;
  switch (style_) {
    case Style::None:
      return {"", 1, "the vector"};
    case Style::Block:
      return {"0", 1, "block 0"};
    case Style::Pair:
      return {"0→1", 1, "from rank 0, for rank 1"};
    case Style::Contributors:
      return {few == 1 ? "0" : "0,1", few,
              few == 1 ? "contribution of rank 0" : "contributions of ranks 0 and 1"};
    case Style::Count:
      return {fmt::format("{}/{}", few, schedule_.ranks), few,
              fmt::format("{} of {} contributions", few, schedule_.ranks)};
  }
  return {};
}

}  // namespace trireme::report
