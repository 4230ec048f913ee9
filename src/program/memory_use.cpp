#include "program/memory_use.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/indexed_vector.h"

namespace trireme {

namespace {

/// A storage counts once, under the category of its first buffer.
std::vector<Storage> first_of_each_storage(const Program& program) {
  std::vector<Storage> storages;
  std::set<std::int32_t> counted;
  for (const Buffer& buffer : program.buffers) {
    if (counted.insert(buffer.storage).second) {
      storages.push_back({.bytes = size_of(buffer.type).count,
                          .first = buffer.first,
                          .last = buffer.last,
                          .category = buffer.category});
    }
  }
  return storages;
}

std::vector<CategoryBytes> memory_by_moment(const std::vector<Storage>& storages,
                                            std::size_t instructions) {
  // First the changes at each moment, then their sums: one pass over the storages.
  const auto moments = static_cast<std::int32_t>(std::max<std::size_t>(instructions, 1));
  std::vector<CategoryBytes> use(moments + 1);
  for (const Storage& storage : storages) {
    const std::int32_t first = std::max(storage.first, 0);
    const std::int32_t after = std::min(std::max(storage.last + 1, 0), moments);
    if (first < after) {
      use[first].at(position_of(storage.category)).count += storage.bytes;
      use[after].at(position_of(storage.category)).count -= storage.bytes;
    }
  }
  use.pop_back();
  for (std::int32_t i = 1; i < moments; ++i) {
    for (std::size_t category = 0; category < kCategories; ++category) {
      use[i].at(category).count += use[i - 1].at(category).count;
    }
  }
  return use;
}

}  // namespace

std::vector<CategoryBytes> memory_by_instruction(const Program& program) {
  return memory_by_moment(first_of_each_storage(program), program.instructions.size());
}

MemoryUse memory_use(const std::vector<Storage>& storages, std::size_t instructions) {
  MemoryUse peak;
  const std::vector<CategoryBytes> moments = memory_by_moment(storages, instructions);
  for (std::size_t i = 0; i < moments.size(); ++i) {
    Bytes sum;
    for (const Bytes& bytes : moments[i]) {
      sum.count += bytes.count;
    }
    if (sum > peak.peak) {
      peak = {.at_peak = moments[i], .peak = sum, .moment = static_cast<std::int32_t>(i)};
    }
  }
  return peak;
}

MemoryUse memory_use(const Program& program) {
  return memory_use(first_of_each_storage(program), program.instructions.size());
}

}  // namespace trireme
