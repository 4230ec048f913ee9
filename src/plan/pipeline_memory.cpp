// What ranks must keep for a table: weight versions, and activations.
#include <algorithm>
#include <map>

#include "base/indexed_vector.h"
#include "plan/pipeline_index.h"
#include "trireme/pipeline.h"

namespace trireme {
namespace {

/// The version that a Forward reads, given how many Updates its stage has done before it.
int version_read(const PipelineTable& table, const PipelineIndex& index,
                 const PipelineTask& forward, int updates_done) {
  if (table.weights == WeightVersions::Previous) {
    return std::max(0, index.updates_before(forward) - 1);
  }
  return updates_done;
}

/// One stage on its rank: its Updates so far, and how many micro-batches in flight use which
/// version.
struct StageWeights {
  int updates = 0;
  std::map<int, int> readers;

  void begin(int version) { ++readers[version]; }
  void end(int version) {
    if (--readers[version] == 0) {
      readers.erase(version);
    }
  }
  /// The versions that have to be kept now.
  [[nodiscard]] int live() const {
    return static_cast<int>(readers.size()) + (readers.contains(updates) ? 0 : 1);
  }
};

/// A number by stage and micro-batch, or by copy and stage.
using Numbers = IndexedVector<int, std::vector<int>>;

/// Tracks the versions through every rank's list. `by_stage` sees (task, weights) after each task.
template <class Visitor>
Numbers follow_versions(const PipelineTable& table, Visitor&& by_stage) {
  const PipelineIndex index(table);
  Numbers versions(table.stages, std::vector<int>(table.microbatches));
  std::map<std::pair<int, int>, StageWeights> stages;
  for (const std::vector<PipelineTask>& tasks : table.tasks) {
    for (const PipelineTask& task : tasks) {
      StageWeights& weights = stages[{task.copy, task.stage}];
      int& version = versions[task.stage][task.microbatch];
      if (task.work == PipelineWork::Forward) {
        version = version_read(table, index, task, weights.updates);
        weights.begin(version);
      } else if (task.work == PipelineWork::Update) {
        ++weights.updates;
      } else if (task.work != PipelineWork::BackwardWeight) {
        weights.end(version);  // the gradient of the weights needs activations, not weights
      }
      by_stage(task, weights);
    }
  }
  return versions;
}

}  // namespace

std::vector<std::vector<int>> weight_versions(const PipelineTable& table) {
  return follow_versions(table, [](const PipelineTask&, const StageWeights&) {}).items();
}

std::vector<std::vector<int>> live_versions(const PipelineTable& table) {
  Numbers most(table.copies, std::vector<int>(table.stages, 1));
  follow_versions(table, [&](const PipelineTask& task, const StageWeights& weights) {
    int& peak = most[task.copy][task.stage];
    peak = std::max(peak, weights.live());
  });
  return std::move(most).items();
}

std::vector<int> activation_peaks(const PipelineTable& table) {
  std::vector<int> peaks;
  peaks.reserve(table.tasks.size());
  for (const std::vector<PipelineTask>& tasks : table.tasks) {
    int kept = 0;
    int peak = 0;
    for (const PipelineTask& task : tasks) {
      if (task.work == PipelineWork::Forward) {
        peak = std::max(peak, ++kept);
      } else if (task.work == PipelineWork::Backward || task.work == PipelineWork::BackwardWeight) {
        --kept;
      }
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace trireme
