#include "ps/tools/shard_probe.h"

#include <algorithm>
#include <numeric>

#include "base/indexed_vector.h"
#include "comm/net/deadline.h"
#include "ps/host/event_loop.h"

namespace trireme::ps {
namespace {

constexpr Micros kPace = 2'000;  ///< between two pushes to a shard
constexpr Seconds kNap{0.0005};

}  // namespace

double ShardWindows::per_window(std::size_t shard, Micros from, Micros to) const {
  const std::vector<std::uint32_t>& all = counts.at(shard);
  const auto first = std::clamp<Micros>((from - begin + kWidth - 1) / kWidth, 0, std::ssize(all));
  const auto last = std::clamp<Micros>((to - begin) / kWidth, first, std::ssize(all));
  if (first == last) {
    return 0;
  }
  const auto sum = std::accumulate(all.begin() + first, all.begin() + last, std::uint64_t{0});
  return static_cast<double>(sum) / static_cast<double>(last - first);
}

// The table has a key for each shard, because shards are ranges of equal size.
ShardProbe::ShardProbe(const ParameterClientOptions& options, std::size_t shards)
    : client_(options),
      table_(client_.create_table({.name = "probe", .keys = shards})),
      lanes_(shards) {
  windows_.begin = micros_now();
  windows_.counts.resize(shards);
  thread_ = std::thread([this] { run(); });
}

void ShardProbe::stop() {
  stopping_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
}

ShardWindows ShardProbe::finish() {
  stop();
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  return windows_;
}

void ShardProbe::run() {
  try {
    while (!stopping_) {
      for (std::size_t shard = 0; shard < lanes_.size(); ++shard) {
        advance(shard);
      }
      std::this_thread::sleep_for(comm::duration(kNap));
    }
  } catch (const std::exception&) {
    failure_ = std::current_exception();
  }
}

void ShardProbe::advance(std::size_t shard) {
  Lane& lane = lanes_[shard];
  if (lane.push && lane.push->is_done()) {
    lane.push->wait();
    count(shard, lane.begun + static_cast<Micros>(lane.push->took().count * 1e6));
    lane.push.reset();
  }
  const Micros now = micros_now();
  if (!lane.push && now - lane.begun >= kPace) {
    lane.push = client_.push(table_, Keys::range(shard, shard + 1), one_);
    lane.begun = now;
  }
}

void ShardProbe::count(std::size_t shard, Micros end) {
  std::vector<std::uint32_t>& windows = windows_.counts[shard];
  const std::size_t window = position_of((end - windows_.begin) / ShardWindows::kWidth);
  windows.resize(std::max(windows.size(), window + 1));
  ++windows[window];
}

}  // namespace trireme::ps
