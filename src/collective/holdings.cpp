// The initial state and the guarantees of operations, and the state of a schedule as sets of
// contributions.
#include <bit>

#include <fmt/format.h>

#include "trireme/collective.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kMaxStateBytes = 4.0 * 1024 * 1024 * 1024;

/// Whether `rank` has its own contribution to `block` before the first step.
bool starts_with(const Schedule& schedule, Rank rank, Block block) {
  switch (schedule.operation) {
    case Operation::Broadcast:
    case Operation::Scatter:
      return rank == schedule.root;
    case Operation::Gather:
    case Operation::Allgather:
      return block == rank;
    case Operation::Alltoall:
      return block / schedule.ranks == rank;
    case Operation::Reduce:
    case Operation::ReduceScatter:
    case Operation::Allreduce:
    case Operation::Barrier:
      return true;
  }
  return false;
}

}  // namespace

Promise promise(const Schedule& schedule, Rank rank, Block block) {
  switch (schedule.operation) {
    case Operation::Broadcast:
    case Operation::Allgather:
      return {true, 1};
    case Operation::Scatter:
      return {block == rank, 1};
    case Operation::Gather:
      return {rank == schedule.root, 1};
    case Operation::Alltoall:
      return {block % schedule.ranks == rank, 1};
    case Operation::Reduce:
      return {rank == schedule.root, schedule.ranks};
    case Operation::ReduceScatter:
      return {block == rank, schedule.ranks};
    case Operation::Allreduce:
      return {schedule.layout == Layout::Split || block == rank, schedule.ranks};
    case Operation::Barrier:
      return {true, schedule.ranks};
  }
  return {};
}

Holdings::Holdings(const Schedule& schedule)
    : ranks_(schedule.ranks), blocks_(schedule.blocks), words_((schedule.ranks + 63) / 64) {
  const double bytes =
      static_cast<double>(ranks_) * static_cast<double>(blocks_) * static_cast<double>(words_) * 8;
  if (bytes > kMaxStateBytes) {
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "{} ranks with {} blocks are too many to follow every contribution ({:.0f} GiB)",
            ranks_, blocks_, bytes / (1 << 30)));
  }
  bits_.assign(ranks_ * blocks_ * words_, 0);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (Block block = 0; block < blocks_; ++block) {
      if (starts_with(schedule, rank, block)) {
        set(rank, block)[rank / 64] |= std::uint64_t{1} << (rank % 64);
      }
    }
  }
}

std::span<std::uint64_t> Holdings::set(Rank rank, Block block) {
  const std::int64_t cell = rank * blocks_ + block;
  return {bits_.data() + cell * words_, words_};
}

std::span<const std::uint64_t> Holdings::set(Rank rank, Block block) const {
  const std::int64_t cell = rank * blocks_ + block;
  return {bits_.data() + cell * words_, words_};
}

Rank Holdings::contributors(Rank rank, Block block) const {
  Rank count = 0;
  for (const std::uint64_t word : set(rank, block)) {
    count += std::popcount(word);
  }
  return count;
}

bool Holdings::contains(Rank rank, Block block, Rank contributor) const {
  return (set(rank, block)[contributor / 64] >> (contributor % 64) & 1) != 0;
}

void Holdings::apply(const Step& step) {
  // All messages read the state before the step, so copy the sent data first.
  std::vector<std::uint64_t> aside;
  for_each_message(step, [&](const Message& message) {
    for_each_block(message.blocks, [&](Block block) {
      const auto sent = set(message.from, block);
      aside.insert(aside.end(), sent.begin(), sent.end());
    });
  });
  auto next = aside.cbegin();
  for_each_message(step, [&](const Message& message) {
    for_each_block(message.blocks, [&](Block block) {
      for (std::uint64_t& word : set(message.to, block)) {
        word = message.action == Action::Copy ? *next : word | *next;
        ++next;
      }
    });
  });
}

}  // namespace trireme
