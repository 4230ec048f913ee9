#include "train/run/ranks.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/train.h"

namespace trireme::train {

int index_along_data(const Mesh& mesh, int rank) {
  if (mesh.size("data") == 1 || rank >= mesh.devices()) {
    return 0;
  }
  const std::vector<int> along = mesh.group_of("data", rank);
  return static_cast<int>(std::ranges::find(along, rank) - along.begin());
}

WorldOptions rank_world_options() {
  WorldOptions options;
  options.deadline = {10.0};  // long enough not to mistake a busy rank for a hung one
  return options;
}

int first_rank_with(World& world, Group& group, bool here) {
  std::int32_t first = here ? world.rank() : world.size();
  CallOptions options;
  options.reduction = Reduction::Min;
  group.run(allreduce<std::int32_t>(std::span(&first, 1), options));
  return first;
}

int first_rank_with(World& world, bool here) {
  return first_rank_with(world, world.all(), here);
}

Plan plan_of_worker(const Plan& plan, const SyncSpec& sync) {
  if (!has_replicas(sync)) {
    return plan;
  }
  std::vector<MeshAxis> axes = plan.mesh.axes();
  std::erase_if(axes, [](const MeshAxis& axis) { return axis.name == "data"; });
  Plan own = plan;
  own.mesh = Mesh(std::move(axes));
  return own;
}

int worker_count(const Plan& plan, const SyncSpec& sync) {
  return has_replicas(sync) ? plan.mesh.size("data") : 1;
}

Ranks::Ranks(const Plan& plan, const SyncSpec& sync, World* world)
    : count_(plan.mesh.devices()),
      world_(world),
      workers_(worker_count(plan, sync)),
      worker_(world == nullptr ? 0 : index_along_data(plan.mesh, world->rank())) {
  if (world != nullptr) {
    all_ = world->all();
  }
  if (world != nullptr && has_replicas(sync)) {
    split(plan, sync);
  } else if (world != nullptr) {
    communicator_ = std::make_unique<Communicator>(*world, plan.mesh);
  } else if (count_ > 1) {
    throw Error(ErrorKind::Usage,
                fmt::format("the mesh {} has {} devices; such a run needs a world "
                            "of as many ranks, see run_ranks()",
                            to_text(plan.mesh), count_));
  }
}

void Ranks::split(const Plan& plan, const SyncSpec& sync) {
  if (plan.mesh.devices() != world_->size()) {
    throw Error(ErrorKind::Usage, fmt::format("the mesh {} has {} devices, the world {} ranks",
                                              to_text(plan.mesh), count_, world_->size()));
  }
  if (needs_threads(sync) &&
      world_->reaches((rank() + 1) % count_) != to_text(TransportKind::InProcess)) {
    throw Error(ErrorKind::Usage,
                fmt::format("--sync {} needs workers that are threads of one process; start "
                            "without a launcher",
                            to_text(sync)));
  }
  if (uses_server(sync)) {
    counterparts_ = all_;
    return;
  }
  counterparts_ = world_->all().split(plan.mesh.group_of("data", rank()).front(), worker_);
  Group own = world_->all().split(worker_, rank());
  if (own.size() > 1) {
    communicator_ = std::make_unique<Communicator>(own, plan_of_worker(plan, sync).mesh);
  }
}

int Ranks::first_with(bool here) {
  return world_ == nullptr ? (here ? 0 : 1) : first_rank_with(*world_, *all_, here);
}

void Ranks::take_maximum(std::span<std::int32_t> numbers) {
  if (world_ != nullptr) {
    CallOptions options;
    options.reduction = Reduction::Max;
    all_->run(allreduce<std::int32_t>(numbers, options));
  }
}

void Ranks::continue_without_dead() {
  all_ = all_->shrink();
  counterparts_ = all_;
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

int Ranks::rank_on_host() const {
  if (world_ == nullptr) {
    return 0;
  }
  for (const std::vector<Rank>& host : world_->hosts()) {
    const auto here = std::ranges::find(host, rank());
    if (here != host.end()) {
      return static_cast<int>(here - host.begin());
    }
  }
  return 0;
}

}  // namespace trireme::train
