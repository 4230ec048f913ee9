// ScheduleCache: the schedules of one group, each built on first use. Callable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "base/mutex.h"
#include "comm/wire/geometry.h"
#include "trireme/collective.h"
#include "trireme/collective_cost.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

class ScheduleCache {
 public:
  /// `ranks_per_host` is 0 unless the ranks are grouped by host, the same number on each. `messages` determines the
  /// number of segments; it must outlive this object.
  ScheduleCache(Rank ranks, Rank ranks_per_host, const CostModel& messages)
      : ranks_(ranks), ranks_per_host_(ranks_per_host), messages_(messages) {}

  /// The result lives as long as this object.
  [[nodiscard]] const Schedule& get(Operation operation, Algorithm algorithm, Rank root,
                                    std::int64_t segments);
  /// The schedule of a call, with as many segments as its size suggests.
  [[nodiscard]] const Schedule& for_call(const Call& call, const Geometry& geometry,
                                         Algorithm algorithm);

 private:
  const Rank ranks_;
  const Rank ranks_per_host_;
  const CostModel& messages_;
  Mutex mutex_;
  std::map<std::tuple<Operation, Algorithm, Rank, std::int64_t>, Schedule> schedules_
      TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
