// Data that stays on its rank: with --data shard-{rank}.txt, each rank along data reads only its own file, and only
// gradients leave it. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "train/run/ranks.h"
#include "trireme/train.h"

namespace trireme::train {

/// Whether names of data files contain "{rank}".
[[nodiscard]] bool has_rank_files(const TrainSettings& settings);

/// The settings with the rank along data in place of "{rank}".
[[nodiscard]] TrainSettings with_rank_files(TrainSettings settings, int rank);

/// Why such data cannot be used under the plan.
[[nodiscard]] std::vector<std::string> rank_files_problems(const TrainSettings& settings,
                                                           const Plan& plan);

/// The examples of a batch that belong to a rank along data: in each micro-batch, the rank's share, in order.
struct RankRows {
  int rank = 0;
  int ranks = 1;
  int microbatches = 1;
  std::int64_t batch = 1;  ///< examples per step
  /// Windows per rank and epoch that all ranks have; a multiple of a rank's share of the batch.
  std::int64_t windows = 0;
  std::size_t row_bytes = 0;
};
/// Batches whose rows for this rank come from `own`, in its order. The other rows are unchanged: this rank does not use
/// them.
[[nodiscard]] std::unique_ptr<Batches> make_rank_batches(std::unique_ptr<Batches> own,
                                                         const RankRows& rows);

/// Combines the batches that each rank has opened for itself. Collective. Throws Error(Usage) if a rank has too little
/// data for one batch.
void share_rank_files(TrainData& data, const TrainSettings& settings, const Plan& plan,
                      Ranks& ranks);

}  // namespace trireme::train
