#include "train/run/ranks.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/train.h"

namespace trireme::train {

int first_rank_with(World& world, bool here) {
  std::int32_t first = here ? world.rank() : world.size();
  CallOptions options;
  options.reduction = Reduction::Min;
  world.all().run(allreduce<std::int32_t>(std::span(&first, 1), options));
  return first;
}

Ranks::Ranks(const Plan& plan, World* world) : count_(plan.mesh.devices()), world_(world) {
  if (world != nullptr) {
    communicator_ = std::make_unique<Communicator>(*world, plan.mesh);
  } else if (count_ > 1) {
    throw Error(ErrorKind::Usage,
                fmt::format("the mesh {} has {} devices; such a run needs a world "
                            "of as many ranks, see run_ranks()",
                            to_text(plan.mesh), count_));
  }
}

int Ranks::first_with(bool here) {
  return world_ == nullptr ? (here ? 0 : 1) : first_rank_with(*world_, here);
}

void Ranks::require_reported_by(int reporter) const {
  if (rank() != reporter) {
    throw ReportedElsewhere();
  }
}

std::vector<int> Ranks::by_host() const {
  if (world_ == nullptr) {
    return {1};
  }
  std::vector<int> counts;
  for (const std::vector<Rank>& host : world_->hosts()) {
    const bool here = std::ranges::find(host, rank()) != host.end();
    counts.insert(here ? counts.begin() : counts.end(), static_cast<int>(host.size()));
  }
  return counts;
}

}  // namespace trireme::train
