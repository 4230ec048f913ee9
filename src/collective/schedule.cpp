#include "trireme/schedule.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

struct OperationRow {
  Operation operation;
  std::string_view name;
  bool has_root;
  bool combines;
};

constexpr IndexedArray<Operation, OperationRow, 9> kOperations{{{
    {Operation::Broadcast, "broadcast", true, false},
    {Operation::Reduce, "reduce", true, true},
    {Operation::Scatter, "scatter", true, false},
    {Operation::Gather, "gather", true, false},
    {Operation::Allgather, "allgather", false, false},
    {Operation::ReduceScatter, "reduce-scatter", false, true},
    {Operation::Allreduce, "allreduce", false, true},
    {Operation::Alltoall, "alltoall", false, false},
    {Operation::Barrier, "barrier", false, false},
}}};

const OperationRow& row(Operation operation) {
  return kOperations.at(operation);
}

/// Elements of the first `block` blocks when `elements` are split into `blocks`.
std::int64_t split_offset(std::int64_t elements, Block blocks, Block block) {
  return elements / blocks * block + std::min<std::int64_t>(block, elements % blocks);
}

/// Elements of a run of blocks of a Split layout, without iterating over them.
std::int64_t split_count(std::int64_t elements, Block blocks, const BlockRun& run) {
  const std::int64_t larger = elements % blocks;  // blocks below this one have one extra element
  std::int64_t with_extra = 0;
  if (run.first < larger) {
    with_extra = std::min(run.count, (larger - run.first + run.stride - 1) / run.stride);
  }
  return elements / blocks * run.count + with_extra;
}

std::vector<std::string> runs_problems(const Schedule& schedule, std::span<const BlockRun> runs) {
  if (runs.empty()) {
    return {"a message has no blocks"};
  }
  for (const BlockRun& run : runs) {
    if (run.count < 1 || run.stride < 1) {
      return {fmt::format("a run of {} blocks with stride {}", run.count, run.stride)};
    }
    if (run.count == 1 && run.stride != 1) {
      return {fmt::format("a single block with stride {}; write it without", run.stride)};
    }
    // Cannot overflow: count and stride are at most `blocks` once these hold.
    const bool inside =
        run.first >= 0 && run.first < schedule.blocks && run.count <= schedule.blocks &&
        (run.count == 1 || run.stride <= (schedule.blocks - 1 - run.first) / (run.count - 1));
    if (!inside) {
      return {fmt::format("blocks from {} (count {}, stride {}) are outside of 0..{}", run.first,
                          run.count, run.stride, schedule.blocks - 1)};
    }
  }
  return {};
}

std::vector<std::string> transfer_problems(const Schedule& schedule, const Transfer& transfer) {
  for (const Rank rank : {transfer.from, transfer.to}) {
    if (rank < 0 || rank >= schedule.ranks) {
      return {fmt::format("rank {} is outside of 0..{}", rank, schedule.ranks - 1)};
    }
  }
  if (transfer.from == transfer.to) {
    return {fmt::format("rank {} sends to itself", transfer.from)};
  }
  return runs_problems(schedule, transfer.blocks);
}

/// The blocks of a turning run range from its base to base + the largest strides: check the two
/// ends.
std::vector<std::string> turn_problems(const Schedule& schedule, const TurningRun& turning,
                                       Rank count) {
  if (turning.row_turn < 0 || turning.row_turn >= count || turning.column_turn < 0 ||
      turning.column_turn >= count) {
    return {fmt::format("a turn is outside of 0..{}", count - 1)};
  }
  if (turning.row_stride == 0 && turning.row_turn != 0) {
    return {fmt::format("a row turn of {} without a row stride; leave it out", turning.row_turn)};
  }
  const Block most = count > 1 ? (schedule.blocks - 1) / (count - 1) : schedule.blocks;
  if (turning.row_stride < 0 || turning.column_stride < 0 || turning.row_stride > most ||
      turning.column_stride > most) {
    return {fmt::format("strides {} and {} over {} places pass block {}", turning.row_stride,
                        turning.column_stride, count, schedule.blocks - 1)};
  }
  const BlockRun lowest{turning.base, turning.run_count, turning.run_stride};
  if (std::vector<std::string> found = runs_problems(schedule, {&lowest, 1}); !found.empty()) {
    return found;
  }
  const BlockRun highest{turning.base + (turning.row_stride + turning.column_stride) * (count - 1),
                         turning.run_count, turning.run_stride};
  return runs_problems(schedule, {&highest, 1});
}

std::vector<std::string> rotation_problems(const Schedule& schedule, const Rotation& rotation) {
  if (rotation.count < 2 || rotation.count > schedule.ranks || rotation.stride < 1 ||
      rotation.first < 0 || rotation.first >= schedule.ranks ||
      rotation.stride > (schedule.ranks - 1 - rotation.first) / (rotation.count - 1)) {
    return {fmt::format("{} places from rank {} with stride {} are not in 0..{}", rotation.count,
                        rotation.first, rotation.stride, schedule.ranks - 1)};
  }
  if (rotation.shift < 1 || rotation.shift >= rotation.count) {
    return {fmt::format("a shift of {} among {} places", rotation.shift, rotation.count)};
  }
  if (rotation.blocks.empty()) {
    return {"a rotation has no blocks"};
  }
  Rank previous = -1;
  for (const Rank place : rotation.silent) {
    if (place <= previous || place >= rotation.count) {
      return {fmt::format("silent place {} is not above {} and below {}", place, previous,
                          rotation.count)};
    }
    previous = place;
  }
  for (const TurningRun& turning : rotation.blocks) {
    if (std::vector<std::string> found = turn_problems(schedule, turning, rotation.count);
        !found.empty()) {
      return found;
    }
  }
  return {};
}

std::vector<std::string> step_problems(const Schedule& schedule, const Step& step) {
  for (const Transfer& transfer : step.transfers) {
    if (std::vector<std::string> found = transfer_problems(schedule, transfer); !found.empty()) {
      return found;
    }
  }
  for (const Rotation& rotation : step.rotations) {
    if (std::vector<std::string> found = rotation_problems(schedule, rotation); !found.empty()) {
      return found;
    }
  }
  return {};
}

/// A name must survive the text form and a terminal: one word of letters, digits, '-', '_' and '.'.
bool is_plain_word(std::string_view word) {
  return !word.empty() && word.size() <= 100 && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

std::vector<std::string> frame_problems(const Schedule& schedule) {
  if (!is_plain_word(schedule.algorithm)) {
    return {"the algorithm's name must be one word of letters, digits, '-', '_' and '.'"};
  }
  if (schedule.ranks < 1 || schedule.ranks > (1 << 24)) {
    return {fmt::format("{} ranks; there must be 1 to {}", schedule.ranks, 1 << 24)};
  }
  if (schedule.root < 0 || schedule.root >= schedule.ranks) {
    return {fmt::format("root {} is outside of 0..{}", schedule.root, schedule.ranks - 1)};
  }
  if (schedule.blocks < 1 || schedule.blocks > (Block{1} << 48)) {
    return {fmt::format("{} blocks; there must be 1 to 2^48", schedule.blocks)};
  }
  const Block ranks = schedule.ranks;
  if (schedule.layout == Layout::Replicas &&
      (schedule.operation != Operation::Allreduce || schedule.blocks != ranks)) {
    return {"layout replicas is for all-reduce, with one block per rank"};
  }
  if ((schedule.layout == Layout::Pairs) != (schedule.operation == Operation::Alltoall)) {
    return {"layout pairs goes with all-to-all and nothing else"};
  }
  if (schedule.layout == Layout::Pairs && schedule.blocks != ranks * ranks) {
    return {"layout pairs has ranks * ranks blocks"};
  }
  const bool block_per_rank =
      schedule.operation == Operation::Scatter || schedule.operation == Operation::Gather ||
      schedule.operation == Operation::Allgather || schedule.operation == Operation::ReduceScatter;
  if (block_per_rank && schedule.blocks != ranks) {
    return {fmt::format("{} has one block per rank: {} ranks, {} blocks",
                        to_text(schedule.operation), ranks, schedule.blocks)};
  }
  return {};
}

}  // namespace

std::string_view to_text(Operation operation) {
  return row(operation).name;
}

Operation parse_operation(std::string_view text) {
  std::vector<std::string> names;
  for (const OperationRow& each : kOperations) {
    if (each.name == text) {
      return each.operation;
    }
    names.emplace_back(each.name);
  }
  throw Error(ErrorKind::Usage, unknown_name("operation", text, names));
}

std::span<const Operation> all_operations() {
  static constexpr auto kAll = [] {
    std::array<Operation, kOperations.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = kOperations.items[i].operation;
    }
    return all;
  }();
  return kAll;
}

bool has_root(Operation operation) {
  return row(operation).has_root;
}

bool combines(Operation operation) {
  return row(operation).combines;
}

Extent block_extent(const Schedule& schedule, std::int64_t elements, Block block) {
  if (schedule.layout == Layout::Replicas) {
    return {0, elements};
  }
  const Block pieces = schedule.layout == Layout::Pairs ? schedule.ranks : schedule.blocks;
  const Block piece = block % pieces;
  const std::int64_t offset = split_offset(elements, pieces, piece);
  return {offset, split_offset(elements, pieces, piece + 1) - offset};
}

std::int64_t element_count(const Schedule& schedule, std::int64_t elements,
                           std::span<const BlockRun> runs) {
  std::int64_t total = 0;
  for (const BlockRun& run : runs) {
    if (schedule.layout == Layout::Split) {
      total += split_count(elements, schedule.blocks, run);
    } else if (schedule.layout == Layout::Replicas) {
      total += elements * run.count;
    } else if (elements % schedule.ranks == 0) {
      total += elements / schedule.ranks * run.count;
    } else {
      for_each_block({&run, 1},
                     [&](Block block) { total += block_extent(schedule, elements, block).length; });
    }
  }
  return total;
}

std::int64_t message_bytes(const Schedule& schedule, const Payload& payload,
                           const Message& message) {
  return element_count(schedule, payload.elements, message.blocks) * payload.element_bytes;
}

std::vector<std::string> form_problems(const Schedule& schedule) {
  if (std::vector<std::string> found = frame_problems(schedule); !found.empty()) {
    return found;
  }
  for (std::size_t t = 0; t < schedule.steps.size(); ++t) {
    if (const std::vector<std::string> found = step_problems(schedule, schedule.steps[t]);
        !found.empty()) {
      return {fmt::format("step {}: {}", t + 1, found.front())};
    }
  }
  return {};
}

}  // namespace trireme
