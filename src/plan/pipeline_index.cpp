#include "plan/pipeline_index.h"

#include <algorithm>

#include "base/indexed_vector.h"

namespace trireme {

PipelineIndex::PipelineIndex(const PipelineTable& table) : table_(table) {
  for (IndexedVector<std::int64_t, PipelinePlace>& places : places_) {
    places.resize(std::int64_t{table.stages} * table.microbatches);
  }
  updates_.resize(std::int64_t{table.copies} * table.stages);
  for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
    for (std::size_t position = 0; position < table.tasks[rank].size(); ++position) {
      const PipelineTask& task = table.tasks[rank][position];
      const PipelinePlace place{static_cast<int>(rank), static_cast<int>(position)};
      const std::int64_t at = key(task.stage, task.microbatch);
      switch (task.work) {
        case PipelineWork::Forward:
          places_[0][at] = place;
          break;
        case PipelineWork::Backward:
          places_[1][at] = place;
          places_[2][at] = place;
          break;
        case PipelineWork::BackwardInput:
          places_[1][at] = place;
          break;
        case PipelineWork::BackwardWeight:
          places_[2][at] = place;
          break;
        case PipelineWork::Update:
          updates_[stage_key(task)].push_back(task.microbatch);
          break;
      }
    }
  }
  for (std::vector<int>& microbatches : updates_) {
    std::ranges::sort(microbatches);
  }
}

int PipelineIndex::copy_of(int microbatch) const {
  const PipelinePlace place = forward(0, microbatch);
  return place.exists() ? task(place).copy : 0;
}

int PipelineIndex::first_included(const PipelineTask& update) const {
  const int before = updates_before(update);
  return before == 0 ? 0 : updates_of(update)[before - 1] + 1;
}

int PipelineIndex::updates_before(const PipelineTask& task) const {
  const std::vector<int>& all = updates_of(task);
  return static_cast<int>(std::ranges::lower_bound(all, task.microbatch) - all.begin());
}

}  // namespace trireme
