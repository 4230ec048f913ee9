#include "trireme/compiled_plan.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/check.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

std::atomic<std::int64_t>& compilations() {
  static std::atomic<std::int64_t> count{0};
  return count;
}

}  // namespace

CompiledPlan::CompiledPlan(NamedGraph graph, Plan plan, const Fusions& fusions)
    : graph_(std::move(graph.graph)), plan_(std::move(plan)) {
  for (int rank = 0; rank < plan_.mesh.devices(); ++rank) {
    ranks_.push_back(rank);
  }
  place(graph.names);
  compile(fusions);
}

CompiledPlan::CompiledPlan(NamedGraph graph, Plan plan, int only_rank, const Fusions& fusions)
    : graph_(std::move(graph.graph)), plan_(std::move(plan)), ranks_{only_rank} {
  place(graph.names);
  compile(fusions);
}

CompiledPlan::CompiledPlan(NamedGraph graph, Plan plan, std::vector<int> ranks)
    : graph_(std::move(graph.graph)), plan_(std::move(plan)), ranks_(std::move(ranks)) {
  place(graph.names);
  compile({});
}

CompiledPlan::CompiledPlan(NamedGraph graph, Plan plan, OneOfEachKind /*which*/,
                           const Fusions& fusions)
    : graph_(std::move(graph.graph)), plan_(std::move(plan)) {
  place(graph.names);
  ranks_ = kinds().first_rank;
  compile(fusions);
}

void CompiledPlan::place(const DimNames& names) {
  ++compilations();
  placements_ = resolve_placements(graph_, plan_, names);
  table_ = table_of(plan_);
  partition_ = std::make_unique<Partition>(graph_, placements_);
}

void CompiledPlan::compile(const Fusions& fusions) {
  programs_.reserve(ranks_.size());
  for (const int rank : ranks_) {
    const RankGraph mine = partition_->graph_at(place_of(plan_, placements_, rank), table_);
    programs_.push_back(make_program(fuse_for(mine.graph, fusions)));
  }
}

CompiledPlan::CompiledPlan(CompiledPlan&&) noexcept = default;
CompiledPlan& CompiledPlan::operator=(CompiledPlan&&) noexcept = default;
CompiledPlan::~CompiledPlan() = default;

const Program& CompiledPlan::program(int rank) const {
  const auto at = std::ranges::find(ranks_, rank) - ranks_.begin();
  TRIREME_CHECK(at < std::ssize(programs_), "the program of this rank was not compiled");
  return programs_[at];
}

RankPrograms CompiledPlan::rank_programs() const {
  if (std::ssize(ranks_) == plan_.mesh.devices()) {
    return RankPrograms::one_each(programs_);
  }
  RankKinds all = kinds();
  TRIREME_CHECK(ranks_ == all.first_rank, "other ranks were compiled than one of each kind");
  return {.programs = programs_, .compiled_for = ranks_, .of_rank = std::move(all.kind_of)};
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
  const int stage = partition_->home(value.name);
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
