// Schedules made from schedules: reversed, in sequence, concurrent, embedded in a larger one.
#include <algorithm>
#include <iterator>
#include <ranges>

#include <fmt/format.h>

#include "collective/algorithms.h"
#include "trireme/error.h"
#include "trireme/schedule.h"

namespace trireme {
namespace {

Operation dual(Operation operation) {
  switch (operation) {
    case Operation::Broadcast:
      return Operation::Reduce;
    case Operation::Reduce:
      return Operation::Broadcast;
    case Operation::Scatter:
      return Operation::Gather;
    case Operation::Gather:
      return Operation::Scatter;
    case Operation::Allgather:
      return Operation::ReduceScatter;
    case Operation::ReduceScatter:
      return Operation::Allgather;
    default:
      throw Error(ErrorKind::Usage,
                  fmt::format("{} has no dual: only broadcast and reduce, scatter and gather, "
                              "allgather and reduce-scatter reverse into one another",
                              to_text(operation)));
  }
}

/// A copy becomes a contribution in reverse, if the reversed operation combines.
Action dual_action(Operation reversed_operation) {
  return combines(reversed_operation) ? Action::Combine : Action::Copy;
}

/// The receiving place, [i + shift], sends back to i. Expressed in terms of the new sender j, i =
/// [j - shift].
Rotation turned_round(const Rotation& rotation, Operation reversed_operation) {
  Rotation back = rotation;
  back.shift = wrapped(-rotation.shift, rotation.count);
  back.action = dual_action(reversed_operation);
  for (TurningRun& turning : back.blocks) {
    turning.row_turn =
        turning.row_stride == 0 ? 0 : wrapped(turning.row_turn - rotation.shift, rotation.count);
    turning.column_turn = wrapped(turning.column_turn - rotation.shift, rotation.count);
  }
  for (Rank& place : back.silent) {
    place = wrapped(place + rotation.shift, rotation.count);
  }
  std::ranges::sort(back.silent);
  return back;
}

Block embedded_block(const Embedding& how, Block block) {
  return how.base + how.row_stride * (block / how.columns) +
         how.column_stride * (block % how.columns);
}

/// The run that replaces one block. A run of one block has stride 1, so that equal runs compare
/// equal.
BlockRun piece(const Embedding& how, Block block) {
  return {embedded_block(how, block), how.run_count, how.run_count == 1 ? 1 : how.run_stride};
}

/// The runs that a run of the inner schedule becomes: one if the pieces are evenly spaced, else one
/// for each block.
void append_embedded(const Embedding& how, const BlockRun& run, std::vector<BlockRun>& out) {
  const bool one_row = how.columns == 1;
  const bool pieces_join =
      how.run_stride == 1 && how.row_stride == how.run_count && run.stride == 1;
  if (run.count == 1) {
    out.push_back(piece(how, run.first));
  } else if (one_row && how.run_count == 1) {
    out.push_back({embedded_block(how, run.first), run.count, run.stride * how.row_stride});
  } else if (one_row && pieces_join) {
    out.push_back({embedded_block(how, run.first), run.count * how.run_count, 1});
  } else {
    for_each_block({&run, 1}, [&](Block b) { out.push_back(piece(how, b)); });
  }
}

Transfer embedded_transfer(const Embedding& how, const Transfer& transfer) {
  Transfer out{how.first_rank + how.rank_stride * transfer.from,
               how.first_rank + how.rank_stride * transfer.to,
               transfer.action,
               {}};
  for (const BlockRun& run : transfer.blocks) {
    append_embedded(how, run, out.blocks);
  }
  return out;
}

/// A rotation stays a rotation: the renaming is linear in rows and columns.
TurningRun embedded_turn(const Embedding& how, const TurningRun& turning) {
  if (turning.run_count != 1) {
    throw Error(ErrorKind::Usage, "only rotations of single blocks can be embedded");
  }
  TurningRun out = turning;
  out.run_count = how.run_count;
  out.run_stride = how.run_count == 1 ? 1 : how.run_stride;
  if (how.columns == 1) {
    out.base = how.base + how.row_stride * turning.base;
    out.row_stride = turning.row_stride * how.row_stride;
    out.column_stride = turning.column_stride * how.row_stride;
    return out;
  }
  if (turning.base != 0 || turning.row_stride != how.columns || turning.column_stride != 1) {
    throw Error(ErrorKind::Usage, "only a rotation over all pairs can be embedded with columns");
  }
  out.base = how.base;
  out.row_stride = how.row_stride;
  out.column_stride = how.column_stride;
  return out;
}

Rotation embedded_rotation(const Embedding& how, const Rotation& rotation) {
  Rotation out = rotation;
  out.first = how.first_rank + how.rank_stride * rotation.first;
  out.stride = how.rank_stride * rotation.stride;
  for (TurningRun& turning : out.blocks) {
    turning = embedded_turn(how, turning);
  }
  return out;
}

void append(Step& to, const Step& from) {
  to.transfers.insert(to.transfers.end(), from.transfers.begin(), from.transfers.end());
  to.rotations.insert(to.rotations.end(), from.rotations.begin(), from.rotations.end());
}

void require_same_frame(const Schedule& a, const Schedule& b) {
  if (a.ranks != b.ranks || a.blocks != b.blocks || a.layout != b.layout) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("schedules that do not fit: {} ranks and {} blocks, {} ranks and {} blocks",
                    a.ranks, a.blocks, b.ranks, b.blocks));
  }
}

}  // namespace

Schedule reversed(const Schedule& schedule) {
  Schedule out = schedule;
  out.operation = dual(schedule.operation);
  std::ranges::reverse(out.steps);
  for (Step& step : out.steps) {
    std::ranges::reverse(step.transfers);
    for (Transfer& transfer : step.transfers) {
      std::swap(transfer.from, transfer.to);
      transfer.action = dual_action(out.operation);
    }
    for (Rotation& rotation : step.rotations) {
      rotation = turned_round(rotation, out.operation);
    }
  }
  return out;
}

Schedule then(Schedule first, const Schedule& second) {
  require_same_frame(first, second);
  first.steps.insert(first.steps.end(), second.steps.begin(), second.steps.end());
  return first;
}

Schedule in_parallel(Schedule one, const Schedule& other) {
  require_same_frame(one, other);
  one.steps.resize(std::max(one.steps.size(), other.steps.size()));
  for (std::size_t t = 0; t < other.steps.size(); ++t) {
    append(one.steps[t], other.steps[t]);
  }
  return one;
}

Schedule embedded(const Schedule& inner, const Embedding& how, const Schedule& frame) {
  Schedule out = frame;
  out.steps.assign(inner.steps.size(), {});
  for (std::size_t t = 0; t < inner.steps.size(); ++t) {
    for (const Transfer& transfer : inner.steps[t].transfers) {
      out.steps[t].transfers.push_back(embedded_transfer(how, transfer));
    }
    for (const Rotation& rotation : inner.steps[t].rotations) {
      out.steps[t].rotations.push_back(embedded_rotation(how, rotation));
    }
  }
  return out;
}

Schedule refined(const Schedule& schedule, Block pieces) {
  Schedule frame = schedule;
  frame.blocks = schedule.blocks * pieces;
  return embedded(schedule, {.row_stride = pieces, .run_count = pieces}, frame);
}

}  // namespace trireme
