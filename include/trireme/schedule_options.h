// Options of a collective, as entered by the user: operation, algorithm, number of ranks and bytes. Values; any thread.
// Invalid options throw Error(Usage) that names the option.
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
  Rank per_node = 0;          ///< 0: from the costs, or near the square root
};

[[nodiscard]] Payload schedule_payload(const ScheduleOptions& options);

[[nodiscard]] Operation required_operation(const ScheduleOptions& options);

/// Call it before computing anything from them.
void require_ranks_and_root(const ScheduleOptions& options, Operation operation);

/// Reports the requested algorithm, or the fastest one with the reason.
[[nodiscard]] ScheduleReport make_schedule_report(const ScheduleOptions& options,
                                                  const CostModel& costs);

}  // namespace trireme::simulate
