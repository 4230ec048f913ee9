// GroupCore: a group as its operations see it. Combines its parts: the membership, the checking of calls, the choice of
// algorithms, the failure state, and the state of direct calls.
//
// The caller's thread and the World's lane use it, one operation at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/direct/area.h"
#include "comm/direct/direct.h"
#include "comm/direct/direct_state.h"
#include "comm/group/algorithm_choice.h"
#include "comm/group/call_checker.h"
#include "comm/group/failure_state.h"
#include "comm/op/context.h"
#include "comm/op/membership.h"
#include "comm/scheduled/context.h"
#include "comm/scheduled/mismatch_detector.h"
#include "comm/scheduled/schedule_cache.h"
#include "comm/world/group_listener.h"
#include "comm/world/world_core.h"

namespace trireme::comm {

class GroupCore : public GroupListener {
 public:
  struct Options {
    std::uint64_t context = 0;
    std::vector<Rank> members{};  ///< world ranks by rank in the group, including this one
    std::vector<Area*> areas{};   ///< by rank in the group if all are on one host, else empty
    /// Calls are numbered from here + 1: areas are reused, and their numbers only increase.
    std::uint64_t last_sequence = 0;
  };
  /// The world must outlive this object.
  GroupCore(WorldCore& world, const Options& options);
  ~GroupCore() override;
  GroupCore(const GroupCore&) = delete;
  GroupCore& operator=(const GroupCore&) = delete;

  [[nodiscard]] WorldCore& world() const { return world_; }
  [[nodiscard]] const Membership& members() const { return members_; }
  [[nodiscard]] FailureState& failures() { return failures_; }
  [[nodiscard]] AlgorithmChoice& choice() { return choice_; }
  [[nodiscard]] CallChecker& calls() { return calls_; }
  [[nodiscard]] MismatchDetector& mismatches() { return mismatches_; }

  // The context of this group's operations, which refer to this object.
  [[nodiscard]] const OpContext& op_context() const { return op_context_; }
  /// Requires that the members see one another's memory.
  [[nodiscard]] const DirectContext& direct_context() const { return *direct_context_; }
  [[nodiscard]] const ScheduledContext& scheduled_context() const { return scheduled_context_; }

  /// How often this was called before with the same number: distinguishes new groups of the same ranks.
  [[nodiscard]] std::uint64_t count_subset(std::uint64_t number) { return subsets_[number]++; }

  void on_call(Rank world_rank, const Record& record, bool is_inquiry) override;
  void on_failure(std::uint64_t code, const std::string& text) override;

 private:
  void release_members();

  WorldCore& world_;
  Membership members_;
  std::unique_ptr<DirectState> direct_;  ///< if the members see one another's memory
  MismatchDetector mismatches_;
  FailureState failures_;
  GroupShape shape_;
  AlgorithmChoice choice_;
  ScheduleCache schedules_;
  CallChecker calls_;
  OpContext op_context_;
  std::optional<DirectContext> direct_context_;
  ScheduledContext scheduled_context_;
  std::map<std::uint64_t, std::uint64_t> subsets_;
};

/// Creates a group and registers it with the world for messages from other ranks.
[[nodiscard]] std::shared_ptr<GroupCore> make_group_core(WorldCore& world,
                                                         const GroupCore::Options& options);

}  // namespace trireme::comm
