// The judge: compares the record of a run with the library's guarantees. A pure function.
//
// Rules about time and about who is declared dead hold only while the machine lets the ranks run: they are judged if it
// was never later than a third of the deadline. The others always hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/fault_fuzz/record.h"
#include "comm/fault_fuzz/scenario.h"

namespace trireme::fault_fuzz {

enum class Rule {
  RightResult,   ///< a call that returns gives the right values
  NoCrash,       ///< no signal, no error other than CommError, no rank accused wrongly
  OneGroup,      ///< no two groups with the same parent complete a barrier
  Membership,    ///< a new group has this rank and only members of its parent
  Barrier,       ///< a barrier waits for every member
  Majority,      ///< no minority continues
  CallInTime,    ///< a call ends in time once a member has failed
  ShrinkInTime,  ///< shrink() ends in time once all survivors have called it
  LeaveInTime,   ///< leaving the world takes no longer than the deadline
  Survival,      ///< unharmed ranks continue, together
  NothingLeft,   ///< no process, file or descriptor is left behind
};
[[nodiscard]] std::string_view to_text(Rule rule);

struct Violation {
  Rule rule = Rule::RightResult;
  std::string text;
};

struct Judgement {
  std::vector<Violation> violations{};
  enum class Timing { Judged, MachineBusy } timing = Timing::Judged;
};
[[nodiscard]] Judgement judge(const Scenario& scenario, const Record& record);

/// "0 1 3"
[[nodiscard]] std::string to_text_of_ranks(RankSet ranks);
/// What happened to each rank, as readable text.
[[nodiscard]] std::string describe(const Record& record);

}  // namespace trireme::fault_fuzz
