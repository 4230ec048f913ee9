#include "trireme/compiled_plan.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

std::atomic<std::int64_t>& compilations() {
  static std::atomic<std::int64_t> count{0};
  return count;
}

}  // namespace

CompiledPlan::CompiledPlan(NamedGraph graph, Plan plan)
    : graph_(std::move(graph.graph)), plan_(std::move(plan)) {
  compile(graph.names, plan_.mesh.devices());
}

CompiledPlan::CompiledPlan(NamedGraph graph, Plan plan, int only_rank)
    : graph_(std::move(graph.graph)), plan_(std::move(plan)), first_rank_(only_rank) {
  compile(graph.names, 1);
}

void CompiledPlan::compile(const DimNames& names, int ranks) {
  ++compilations();
  placements_ = resolve_placements(graph_, plan_, names);
  table_ = table_of(plan_);
  partition_ = std::make_unique<Partition>(graph_, placements_);
  programs_.reserve(static_cast<std::size_t>(ranks));
  for (int rank = first_rank_; rank < first_rank_ + ranks; ++rank) {
    const RankGraph mine = partition_->graph_at(place_of(plan_, placements_, rank), table_);
    programs_.push_back(make_program(fuse_elementwise(mine.graph)));
  }
}

CompiledPlan::CompiledPlan(CompiledPlan&&) noexcept = default;
CompiledPlan& CompiledPlan::operator=(CompiledPlan&&) noexcept = default;
CompiledPlan::~CompiledPlan() = default;

const Program& CompiledPlan::program(int rank) const {
  const auto at = static_cast<std::size_t>(rank - first_rank_);
  TRIREME_CHECK(at < programs_.size(), "the program of this rank was not compiled");
  return programs_[at];
}

Part CompiledPlan::shard_of(const Value& value, int rank) const {
  Part part;
  part.type = value.type;
  part.placement = partition_->stored(value.name);
  part.axes = placements_.axes;
  part.micro = placements_.micro;
  part.coordinates = place_of(plan_, placements_, rank).coordinates;
  return part;
}

bool CompiledPlan::stores(const Value& value, int rank) const {
  const auto stage = static_cast<std::size_t>(partition_->home(value.name));
  const int pipe = place_of(plan_, placements_, rank).pipe;
  return std::ranges::any_of(table_.placement,
                             [&](const std::vector<int>& copy) { return copy[stage] == pipe; });
}

std::vector<std::string> problems(const CompiledPlan& compiled) {
  return problems(compiled.programs(), groups_of(compiled.plan().mesh));
}

std::int64_t compilation_count() {
  return compilations().load();
}

}  // namespace trireme
