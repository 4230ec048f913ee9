// Running a schedule on numbers, and the memory it needs besides the caller's buffers.
#include <algorithm>
#include <map>

#include "trireme/collective.h"

namespace trireme {
namespace {

/// One block in flight.
struct Parcel {
  Rank to;
  Block block;
  Action action;
  std::vector<double> values;
};

void deliver(const Parcel& parcel, Values& buffers) {
  std::vector<double>& held = buffers[parcel.to][parcel.block];
  if (parcel.action == Action::Copy) {
    held = parcel.values;
    return;
  }
  for (std::size_t i = 0; i < held.size() && i < parcel.values.size(); ++i) {
    held[i] += parcel.values[i];
  }
}

/// Whether the block has a place in the rank's own output, so that receiving it needs no scratch.
bool has_home(const Schedule& schedule, Rank rank, Block block) {
  return promise(schedule, rank, block).wanted;
}

/// A block without a home is held from the step that delivers it to the last step that sends it on.
struct Stay {
  std::size_t arrives;
  std::size_t leaves;
};
using Stays = std::map<std::pair<Rank, Block>, Stay>;

void note_visits(const Schedule& schedule, std::size_t step, const Message& m, Stays& stays) {
  for_each_block(m.blocks, [&](Block block) {
    if (const auto stay = stays.find({m.from, block}); stay != stays.end()) {
      stay->second.leaves = step;
    }
    if (!has_home(schedule, m.to, block)) {
      stays.try_emplace({m.to, block}, Stay{step, step});
    }
  });
}

}  // namespace

void replay(const Schedule& schedule, Values& buffers,
            const std::function<void(std::size_t)>& after_step) {
  for (std::size_t t = 0; t < schedule.steps.size(); ++t) {
    std::vector<Parcel> parcels;
    for_each_message(schedule.steps[t], [&](const Message& m) {
      for_each_block(m.blocks, [&](Block block) {
        parcels.push_back({m.to, block, m.action, buffers[m.from][block]});
      });
    });
    for (const Parcel& parcel : parcels) {
      deliver(parcel, buffers);
    }
    if (after_step) {
      after_step(t);
    }
  }
}

Block scratch_blocks(const Schedule& schedule) {
  Stays stays;
  for (std::size_t t = 0; t < schedule.steps.size(); ++t) {
    for_each_message(schedule.steps[t],
                     [&](const Message& m) { note_visits(schedule, t, m, stays); });
  }
  std::map<Rank, std::vector<Block>> change;  // by rank: change in the number of blocks from this
                                              // step on
  for (const auto& [cell, stay] : stays) {
    std::vector<Block>& steps =
        change.try_emplace(cell.first, schedule.steps.size() + 1).first->second;
    ++steps[stay.arrives];
    --steps[stay.leaves + 1];
  }
  Block most = 0;
  for (const auto& [rank, steps] : change) {
    Block held = 0;
    for (const Block delta : steps) {
      held += delta;
      most = std::max(most, held);
    }
  }
  return most;
}

}  // namespace trireme
