// How a new group is created: split, subset and shrink each collect the members' entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/direct/area.h"
#include "comm/world/world_core.h"
#include "trireme/comm.h"

namespace trireme::comm {

/// A rank's contribution to a new group: the location of its area, and the last number used in it.
struct GroupEntry {
  std::int64_t color = 0;
  std::int64_t key = 0;
  std::uint64_t place = 0;
  std::uint64_t last = 0;
};
/// Requires that many bytes.
[[nodiscard]] GroupEntry read_entry(std::span<const std::byte> bytes);

/// A context for a group that follows from another's.
[[nodiscard]] std::uint64_t mix_context(std::uint64_t a, std::uint64_t b);

/// This rank's area for a new group. If the group is not created, the area is abandoned: others may know of it.
class NewArea {
 public:
  explicit NewArea(WorldCore& world);
  [[nodiscard]] GroupEntry entry(std::int64_t color, std::int64_t key) const;
  [[nodiscard]] Area* take();

 private:
  WorldCore& world_;
  Area* area_ = nullptr;
};

struct NewGroup {
  std::uint64_t context = 0;
  std::vector<Rank> members{};        ///< world ranks, including this one
  std::vector<GroupEntry> entries{};  ///< theirs
};
[[nodiscard]] Group make_group(WorldCore& world, const NewGroup& group, NewArea& own);

/// The group of all ranks, before the world starts.
[[nodiscard]] std::unique_ptr<Group> make_group_of_all(WorldCore& world);

}  // namespace trireme::comm
