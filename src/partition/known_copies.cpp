#include "partition/known_copies.h"

#include <algorithm>

#include "base/check.h"

namespace trireme::partition {
namespace {

/// Forward, backward and update: a resharded copy for one of them is not kept for the next.
int part_of_step(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return 0;
    case Phase::Recompute:
    case Phase::Backward:
      return 1;
    case Phase::Update:
      return 2;
  }
  return 0;
}

}  // namespace

CopyId KnownCopies::add_copy(ValueId id, const Placement& placement, std::int32_t step, Known how) {
  how.copy = placed_.copies.count();
  placed_.copies.push_back({.value = id, .placement = placement, .step = step});
  known_[id].push_back(how);
  return how.copy;
}

CopyId KnownCopies::add(ValueId id, const Placement& placement, std::int32_t step) {
  return add_copy(id, placement, step, {-1, kAlways, -1, Rank::Primary});
}

CopyId KnownCopies::primary(ValueId id) const {
  TRIREME_CHECK(any(id), placed_.graph.value(id).name);
  CopyId found = -1;
  for (const Known& one : known(id)) {
    found = one.rank == Rank::Primary ? one.copy : found;
  }
  return found;
}

/// The best copy to start from: one that already has this placement, else the primary one.
CopyId KnownCopies::source(ValueId id, const Placement& wanted, int part, int stage) const {
  CopyId best = primary(id);
  double least = elements_moved(placed_.copy(best).placement, wanted, shape(id), placed_.axes());
  for (const Known& one : known(id)) {
    const bool usable = one.part == kAlways || (one.part == part && one.stage == stage);
    const bool possible = std::ranges::all_of(wanted.partial, [&](const auto& entry) {
      return placed_.copy(one.copy).placement.partial.contains(entry.first);
    });
    if (!usable || !possible) {
      continue;
    }
    if (placed_.copy(one.copy).placement == wanted) {
      return one.copy;
    }
    const double moved =
        elements_moved(placed_.copy(one.copy).placement, wanted, shape(id), placed_.axes());
    if (moved < least) {
      least = moved;
      best = one.copy;
    }
  }
  return best;
}

double KnownCopies::cost_to_get(ValueId id, const Placement& wanted, Phase phase, int stage) const {
  const CopyId from = source(id, wanted, part_of_step(phase), stage);
  return static_cast<double>(size_of(placed_.graph.value(id).type.dtype).count) *
         elements_moved(placed_.copy(from).placement, wanted, shape(id), placed_.axes());
}

CopyId KnownCopies::get(ValueId id, const Placement& wanted, const PlacedStep& like) {
  return change(source(id, wanted, part_of_step(like.phase), like.stage), wanted, like,
                Rank::Other);
}

CopyId KnownCopies::change(CopyId from, const Placement& wanted, const PlacedStep& like,
                           Rank rank) {
  const ValueId id = placed_.copy(from).value;
  for (const Change& one :
       changes_between(placed_.copy(from).placement, wanted, shape(id), placed_.axes())) {
    PlacedStep step;
    step.change = one;
    step.inputs = {from};
    step.phase = like.phase;
    step.block = like.block;
    step.stage = like.stage;
    if (one.axis == placed_.micro() && one.kind != ChangeKind::Slice &&
        placed_.copy(from).step >= 0) {
      // Micro-batches are merged on arrival, no matter which op needs the result.
      const PlacedStep& maker = placed_.steps[placed_.copy(from).step];
      step.phase = maker.phase;
      step.block = maker.block;
      step.stage = maker.stage;
    }
    // A copy that is no larger than its source may be kept as long; a gathered one is only for this part of the step.
    const bool larger = one.kind == ChangeKind::AllGather;
    const int part = larger && rank == Rank::Other ? part_of_step(like.phase) : kAlways;
    from = add_copy(id, one.result, static_cast<std::int32_t>(placed_.steps.size()),
                    {-1, part, like.stage, rank});
    step.outputs = {from};
    placed_.steps.push_back(step);
  }
  return from;
}

}  // namespace trireme::partition
