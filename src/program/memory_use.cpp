#include "program/memory_use.h"

#include <algorithm>
#include <array>
#include <set>

namespace trireme {

MemoryUse memory_use(const std::vector<Storage>& storages, std::size_t instructions) {
  // Changes are recorded by moment, so that one pass finds the peak.
  const std::size_t moments = std::max<std::size_t>(instructions, 1);
  std::vector<std::array<std::int64_t, kCategories>> changes(moments + 1);
  for (const Storage& storage : storages) {
    const auto first = static_cast<std::size_t>(std::max(storage.first, 0));
    const std::size_t after =
        std::min(static_cast<std::size_t>(std::max(storage.last + 1, 0)), moments);
    if (first < after) {
      changes[first].at(static_cast<std::size_t>(storage.category)) += storage.bytes;
      changes[after].at(static_cast<std::size_t>(storage.category)) -= storage.bytes;
    }
  }
  MemoryUse use;
  MemoryUse now;
  for (std::size_t i = 0; i < moments; ++i) {
    now.moment = static_cast<std::int32_t>(i);
    for (std::size_t category = 0; category < kCategories; ++category) {
      now.at_peak.at(category).count += changes[i].at(category);
      now.peak.count += changes[i].at(category);
    }
    if (now.peak > use.peak) {
      use = now;
    }
  }
  return use;
}

MemoryUse memory_use(const Program& program) {
  // A storage counts once, under the category of its first buffer.
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
  return memory_use(storages, program.instructions.size());
}

}  // namespace trireme
