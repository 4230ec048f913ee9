#include "report/draw/states.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme::report {
namespace {

constexpr Rank kMaxDrawnRanks = 64;
constexpr double kMaxCells = 25'000;  // of all moments together: a file of about 4 MB
constexpr std::int64_t kMaxMessages = 5'000;
constexpr std::size_t kMaxDrawnSteps = 40;  // with more, the middle is omitted
constexpr std::size_t kFirstSteps = 8;
constexpr std::size_t kLastSteps = 8;
constexpr Block kLongestStrip = 8;  // with more blocks, a square

/// The contents that are still needed, found in a backward pass over the steps.
class Usefulness {
 public:
  explicit Usefulness(const Schedule& schedule)
      : schedule_(schedule), needed_(schedule.ranks * schedule.blocks) {
    for (Rank rank = 0; rank < schedule.ranks; ++rank) {
      for (Block block = 0; block < schedule.blocks; ++block) {
        needed_[index(rank, block)] = promise(schedule, rank, block).wanted;
      }
    }
  }

  /// From the blocks needed after the step to those needed before it.
  void go_back(const Step& step) {
    for_each_message(step, [&](const Message& m) {
      if (m.action == Action::Copy) {
        for_each_block(m.blocks, [&](Block block) { needed_[index(m.to, block)] = false; });
      }
    });
    for_each_message(step, [&](const Message& m) {
      for_each_block(m.blocks, [&](Block block) { needed_[index(m.from, block)] = true; });
    });
  }

  [[nodiscard]] const std::vector<bool>& needed() const { return needed_; }

 private:
  [[nodiscard]] std::int64_t index(Rank rank, Block block) const {
    return rank * schedule_.blocks + block;
  }
  const Schedule& schedule_;
  std::vector<bool> needed_;
};

std::int64_t messages_drawn(const Schedule& schedule, const std::vector<std::size_t>& moments) {
  std::int64_t messages = 0;
  for (std::size_t k = 0; k + 1 < moments.size(); ++k) {
    if (moments[k] + 1 == moments[k + 1]) {
      for_each_message(schedule.steps[moments[k]], [&](const Message&) { ++messages; });
    }
  }
  return messages;
}

CellGrid plain_grid(const Schedule& schedule) {
  CellGrid grid;
  const Block columns =
      schedule.blocks <= kLongestStrip
          ? schedule.blocks
          : static_cast<Block>(std::ceil(std::sqrt(static_cast<double>(schedule.blocks))));
  grid.columns = static_cast<int>(columns);
  grid.lines = static_cast<int>((schedule.blocks + columns - 1) / columns);
  std::vector<Slot> slots;
  for (Block block = 0; block < schedule.blocks; ++block) {
    slots.push_back({block, static_cast<int>(block / columns), static_cast<int>(block % columns)});
  }
  grid.ranks.assign(schedule.ranks, slots);
  return grid;
}

/// By rank: the blocks that it has or gets at any time.
std::vector<std::set<Block>> blocks_ever_held(const Schedule& schedule) {
  IndexedVector<Rank, std::set<Block>> held(schedule.ranks);
  const Holdings start(schedule);
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    for (Block block = 0; block < schedule.blocks; ++block) {
      if (start.contributors(rank, block) > 0 || promise(schedule, rank, block).wanted) {
        held[rank].insert(block);
      }
    }
  }
  for (const Step& step : schedule.steps) {
    for_each_message(step, [&](const Message& m) {
      for_each_block(m.blocks, [&](Block block) {
        held[m.from].insert(block);
        held[m.to].insert(block);
      });
    });
  }
  return std::move(held).items();
}

CellGrid pair_grid(const Schedule& schedule) {
  const Rank ranks = schedule.ranks;
  CellGrid grid{.lines = 2, .columns = ranks, .ranks = {}};
  for (const std::set<Block>& held : blocks_ever_held(schedule)) {
    const Rank self = grid.ranks.count();
    grid.ranks.push_back({});
    std::vector<Slot>& slots = grid.ranks.back();
    int passing = 0;
    for (const Block block : held) {
      const auto source = static_cast<Rank>(block / ranks);
      const auto target = static_cast<Rank>(block % ranks);
      if (target == self) {
        slots.push_back({block, 1, source});
      } else if (source == self) {
        slots.push_back({block, 0, target});
      } else {
        slots.push_back({block, kPassingLine + passing / ranks, passing % ranks});
        ++passing;
      }
      grid.lines = std::max(grid.lines, slots.back().line + 1);
    }
  }
  return grid;
}

}  // namespace

std::vector<Snapshot> take_snapshots(const Schedule& schedule,
                                     const std::vector<std::size_t>& steps_done) {
  std::vector<Snapshot> snapshots;
  Holdings holdings(schedule);
  std::size_t done = 0;
  for (const std::size_t moment : steps_done) {
    for (; done < moment; ++done) {
      holdings.apply(schedule.steps[done]);
    }
    snapshots.push_back({.steps_done = done, .holdings = holdings, .needed = {}});
  }
  Usefulness usefulness(schedule);
  done = schedule.steps.size();
  for (auto snapshot = snapshots.rbegin(); snapshot != snapshots.rend(); ++snapshot) {
    for (; done > snapshot->steps_done; --done) {
      usefulness.go_back(schedule.steps[done - 1]);
    }
    snapshot->needed = usefulness.needed();
  }
  return snapshots;
}

std::vector<std::size_t> shown_moments(std::size_t steps) {
  std::vector<std::size_t> moments(steps + 1);
  std::iota(moments.begin(), moments.end(), std::size_t{0});
  if (steps > kMaxDrawnSteps) {
    moments.erase(moments.begin() + kFirstSteps + 1, moments.end() - kLastSteps - 1);
  }
  return moments;
}

CellState cell_state(const Schedule& schedule, const Snapshot& snapshot, Rank rank, Block block) {
  const Promise goal = promise(schedule, rank, block);
  const Rank contributors = snapshot.holdings.contributors(rank, block);
  const bool needed = snapshot.needed[rank * schedule.blocks + block];
  return {.contributors = contributors,
          .share = static_cast<double>(contributors) / std::max(1, goal.contributors),
          .finished = goal.wanted && contributors == goal.contributors,
          .spent = contributors > 0 && !needed};
}

std::size_t CellGrid::cells() const {
  std::size_t count = 0;
  for (const std::vector<Slot>& slots : ranks) {
    count += slots.size();
  }
  return count;
}

const Slot& CellGrid::find(Rank rank, Block block) const {
  const std::vector<Slot>& slots = ranks[rank];
  const auto found = std::ranges::lower_bound(slots, block, {}, &Slot::block);
  TRIREME_CHECK(found != slots.end() && found->block == block,
                fmt::format("rank {} has no cell for block {}", rank, block));
  return *found;
}

CellGrid lay_out_cells(const Schedule& schedule) {
  return schedule.layout == Layout::Pairs ? pair_grid(schedule) : plain_grid(schedule);
}

void require_drawable(const Schedule& schedule) {
  if (schedule.ranks > kMaxDrawnRanks) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} ranks are too many for a picture; draw at most {} (--ranks)",
                            schedule.ranks, kMaxDrawnRanks));
  }
  const std::vector<std::size_t> moments = shown_moments(schedule.steps.size());
  const auto rows = static_cast<double>(moments.size());
  double cells = static_cast<double>(schedule.blocks) * schedule.ranks * rows;
  if (schedule.layout == Layout::Pairs) {
    cells = static_cast<double>(pair_grid(schedule).cells()) * rows;
  }
  if (cells > kMaxCells) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("{} ranks with {} blocks over {} steps make {:.0f} cells, too many for "
                    "a picture (at most {:.0f}); draw fewer ranks (--ranks) or segments",
                    schedule.ranks, schedule.blocks, schedule.steps.size(), cells, kMaxCells));
  }
  if (const std::int64_t messages = messages_drawn(schedule, moments); messages > kMaxMessages) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} messages are too many for a picture (at most {}); draw fewer ranks "
                            "(--ranks)",
                            messages, kMaxMessages));
  }
}

std::string range_text(const std::vector<Block>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    // Two adjacent numbers read better as "0,1".
    last = last == first + 1 ? first : last;
    text += text.empty() ? "" : ",";
    text += last == first ? fmt::format("{}", numbers[first])
                          : fmt::format("{}–{}", numbers[first], numbers[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace trireme::report
