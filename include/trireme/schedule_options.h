// A collective as its user writes it: which operation, by which algorithm, over how many ranks and bytes. Values; any
// thread. What is wrong throws Error(Usage) that names the option.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/schedule_report.h"

namespace trireme::simulate {

struct ScheduleOptions {
  std::string operation{};
  std::string algorithm = "auto";  ///< auto: the one predicted to be fastest
  Rank ranks = 8;
  Rank root = 0;
  std::string size = "1MiB";
  std::string dtype = "u8";
  std::int64_t segments = 0;  ///< 0: the best
  Rank per_node = 0;          ///< 0: of the costs, or near the square root
};

[[nodiscard]] Payload schedule_payload(const ScheduleOptions& options);

[[nodiscard]] Operation required_operation(const ScheduleOptions& options);

/// Before anything is computed from them.
void require_ranks_and_root(const ScheduleOptions& options, Operation operation);

/// Of the requested algorithm, or of the fastest one with the reason.
[[nodiscard]] ScheduleReport make_schedule_report(const ScheduleOptions& options,
                                                  const CostModel& costs);

}  // namespace trireme::simulate
