#include "comm/scheduled/schedule_cache.h"

namespace trireme::comm {

const Schedule& ScheduleCache::get(Operation operation, Algorithm algorithm, Rank root,
                                   std::int64_t segments) {
  const auto key = std::tuple(operation, algorithm, root, segments);
  MutexLock lock(mutex_);
  const auto it = schedules_.find(key);
  if (it != schedules_.end()) {
    return it->second;
  }
  const BuildOptions options{.ranks = ranks_,
                             .root = root,
                             .segments = segments,
                             .ranks_per_node = ranks_per_host_ < ranks_ ? ranks_per_host_ : 0};
  return schedules_.emplace(key, build(operation, algorithm, options)).first->second;
}

const Schedule& ScheduleCache::for_call(const Call& call, const Geometry& geometry,
                                        Algorithm algorithm) {
  const std::int64_t segments =
      best_segments(call.operation, algorithm, ranks_, {geometry.bytes()}, messages_);
  return get(call.operation, algorithm, has_root(call.operation) ? call.root : 0, segments);
}

}  // namespace trireme::comm
