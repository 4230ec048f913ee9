// GroupListener: receives the messages that a world forwards to a group.
#pragma once

#include <cstdint>
#include <string>

#include "comm/wire/record.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// Called on the thread that moves messages; must not block.
class GroupListener {
 public:
  GroupListener() = default;
  virtual ~GroupListener() = default;
  GroupListener(const GroupListener&) = delete;
  GroupListener& operator=(const GroupListener&) = delete;

  /// A member reports its call. `is_inquiry`: it requests this rank's call.
  virtual void on_call(Rank world_rank, const Record& record, bool is_inquiry) = 0;
  /// A member marked the group as failed: see Area::failed for the code.
  virtual void on_failure(std::uint64_t code, const std::string& text) = 0;
};

}  // namespace trireme::comm
