// The content of a schedule's picture, before anything is drawn: the moments shown, every rank's
// blocks at each, and their positions in the rank's grid. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/collective.h"
#include "trireme/schedule.h"

namespace trireme::report {

/// All ranks between two steps.
struct Snapshot {
  std::size_t steps_done = 0;
  Holdings holdings;
  /// By rank * blocks + block: the content is sent later, combined later, or part of the result.
  std::vector<bool> needed;
};

/// The state after each of these numbers of steps (ascending, at most all of them).
[[nodiscard]] std::vector<Snapshot> take_snapshots(const Schedule& schedule,
                                                   const std::vector<std::size_t>& steps_done);

/// The steps after which the picture shows the state: each, or, with too many steps, the first few
/// and the last few.
[[nodiscard]] std::vector<std::size_t> shown_moments(std::size_t steps);

/// One block of one rank, as the picture shows it.
struct CellState {
  Rank contributors = 0;  ///< 0: empty
  double share = 0;       ///< of the contributions that the finished block has
  bool finished = false;  ///< as the operation promises this rank
  bool spent = false;     ///< held, but no longer needed
};
[[nodiscard]] CellState cell_state(const Schedule& schedule, const Snapshot& snapshot, Rank rank,
                                   Block block);

struct Slot {
  Block block = 0;
  int line = 0;
  int column = 0;
};

/// In an all-to-all: the first line for blocks that a rank neither starts nor ends with.
inline constexpr int kPassingLine = 2;

/// Where each rank's blocks are; the same at every moment.
struct CellGrid {
  int lines = 1;
  int columns = 1;
  IndexedVector<Rank, std::vector<Slot>> ranks;  ///< in the order of the blocks

  [[nodiscard]] std::size_t cells() const;  ///< of all ranks
  [[nodiscard]] const Slot& find(Rank rank, Block block) const;
};
/// A strip, or a square if there are many blocks. For all-to-all only the blocks that the rank ever
/// holds: on the first line those for others, on the second those for itself, below those that pass
/// through.
[[nodiscard]] CellGrid lay_out_cells(const Schedule& schedule);

/// Throws Error(Usage) if a picture of the schedule would be too large.
void require_drawable(const Schedule& schedule);

/// "0–3,5": ascending numbers, three or more consecutive ones as a range.
[[nodiscard]] std::string range_text(const std::vector<Block>& numbers);

}  // namespace trireme::report
