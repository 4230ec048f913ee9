#include "program/arena.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/indexed_vector.h"
#include "trireme/program_layout.h"

namespace trireme {

Arena::Arena(const std::vector<Storage>& storages, Bytes alignment)
    : storages_(storages), alignment_(alignment.count), offset_(storages.size(), 0) {
  std::vector<std::size_t> order(storages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(storages[a].kept, storages[a].bytes) >
           std::pair(storages[b].kept, storages[b].bytes);
  });
  for (const std::size_t s : order) {
    place(s);
  }
}

void Arena::place(std::size_t s) {
  offset_[s] = lowest_place(storages_[s]);
  const auto it = std::ranges::upper_bound(placed_, offset_[s], {},
                                           [&](std::size_t other) { return offset_[other]; });
  placed_.insert(it, s);
  size_ = std::max(size_, offset_[s] + storages_[s].bytes);
}

std::int64_t Arena::lowest_place(const Storage& storage) const {
  std::int64_t offset = 0;
  for (const std::size_t s : placed_) {
    const Storage& other = storages_[s];
    const bool meet = other.first <= storage.last && storage.first <= other.last;
    if (!meet || offset_[s] + other.bytes <= offset) {
      continue;
    }
    if (offset + storage.bytes <= offset_[s]) {
      break;
    }
    offset = (offset_[s] + other.bytes + alignment_ - 1) / alignment_ * alignment_;
  }
  return offset;
}

namespace {

std::vector<Storage> storages_by_id(const Program& program) {
  std::vector<Storage> storages;
  for (const Buffer& buffer : program.buffers) {
    const std::size_t s = position_of(buffer.storage);
    storages.resize(std::max(storages.size(), s + 1));
    storages[s] = {.bytes = std::max(storages[s].bytes, size_of(buffer.type).count),
                   .first = buffer.first,
                   .last = buffer.last,
                   .kept = buffer.first < 0};
  }
  return storages;
}

}  // namespace

Program aligned_to(Program program, Bytes alignment) {
  const bool aligned = std::ranges::all_of(
      program.buffers, [&](const Buffer& buffer) { return buffer.offset % alignment.count == 0; });
  if (aligned) {
    return program;
  }
  const std::vector<Storage> storages = storages_by_id(program);
  const Arena arena(storages, alignment);
  for (Buffer& buffer : program.buffers) {
    buffer.offset = arena.offset_of(buffer.storage);
  }
  program.arena = {arena.size()};
  return program;
}

}  // namespace trireme
