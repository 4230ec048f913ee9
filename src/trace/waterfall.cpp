// With T the time of the step, and means over ranks,
//   T = messages + collectives + gaps + memory-bound kernels + recomputed ones + products + attention,
// where the last two take HFU * T at peak. HFU is divided between them by FLOPs.
#include "trireme/waterfall.h"

#include "trace/traced_ranks.h"

namespace trireme {

std::optional<Waterfall> waterfall_of(const Trace& trace, const TracedSpeed& speed) {
  if (!has_products(trace)) {
    return std::nullopt;
  }
  const std::vector<TracedRank> ranks = traced_ranks(trace);
  const RankTimes mean = mean_of(times_of(ranks, speed.step_time));
  const double whole = speed.step_time.count;
  const double attention_hfu = speed.hfu * attention_share(ranks);
  Waterfall w;
  w.step = speed.step;
  w.ranks = static_cast<int>(ranks.size());
  w.messages = mean.messages / whole;
  w.collectives = mean.collectives / whole;
  w.gaps = (whole - mean.kernels() - mean.waiting()) / whole;
  w.memory_bound = mean.memory_bound / whole;
  w.recomputed_kernels = mean.recomputed / whole;
  w.products = mean.products / whole - (speed.hfu - attention_hfu);
  w.attention = mean.attention / whole - attention_hfu;
  w.recomputed_products = speed.hfu - speed.mfu;
  w.mfu = speed.mfu;
  return w;
}

}  // namespace trireme
