#include "partition/early_gathers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "partition/placed.h"
#include "partition/run_order.h"

namespace trireme::partition {
namespace {

using Tasks = std::vector<std::vector<Turn>>;

class EarlyGathers {
 public:
  EarlyGathers(const Placed& placed, const RunOrder& order, int pipe, const Tasks& tasks)
      : placed_(placed), order_(order), pipe_(pipe), tasks_(tasks) {
    for (const std::vector<Turn>& turns : tasks_) {
      std::ranges::copy_if(turns, std::back_inserter(gathers_),
                           [&](const Turn& turn) { return can_move(turn); });
    }
    find_room();
  }

  Tasks run() {
    Tasks result(tasks_.size());
    begin_more(result.front());
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      for (const Turn& turn : tasks_[task]) {
        if (can_move(turn)) {
          need(turn, result[task]);
          begin_more(result[task]);
        } else {
          result[task].push_back(turn);
        }
      }
    }
    return result;
  }

 private:
  [[nodiscard]] const PlacedStep& step(const Turn& turn) const { return placed_.steps[turn.step]; }

  /// Whether it gathers a value of this place that exists when the step begins.
  [[nodiscard]] bool can_move(const Turn& turn) const {
    const PlacedStep& what = step(turn);
    if (what.node.valid() || what.change.kind != ChangeKind::AllGather ||
        what.change.axis == placed_.micro()) {
      return false;
    }
    const CopyId from = what.inputs[0];
    const int instance = order_.instance_for(turn, from);
    return placed_.copy(from).step < 0 && !placed_.is_input(from) && instance == 0 &&
           order_.source(turn, pipe_, from, instance) == pipe_;
  }

  /// Bytes of the result, and of the scratch if shards are not contiguous. If the ranks' sizes differ, the first
  /// rank's: all must make the same decision.
  [[nodiscard]] std::int64_t bytes_of(const Turn& turn) const {
    const Copy& made = placed_.copy(step(turn).outputs[0]);
    const TensorType& whole = placed_.value(made).type;
    const std::vector<int> first(placed_.axes().size(), 0);
    const Shape shape = shape_at(made.placement, whole.shape, placed_.axes(), first);
    const auto& dims = shape.dims();
    const std::int64_t pieces =
        std::accumulate(dims.begin(), dims.begin() + step(turn).change.dimension, std::int64_t{1},
                        std::multiplies<>());
    return size_of({whole.dtype, shape}).count * (pieces == 1 ? 1 : 2);
  }

  void find_room() {
    std::map<std::pair<Phase, std::int32_t>, std::int64_t> by_block;
    std::int64_t largest = 0;
    for (const Turn& turn : gathers_) {
      const std::int64_t bytes = bytes_of(turn);
      largest = std::max(largest, bytes);
      if (step(turn).block >= 0) {
        std::int64_t& sum = by_block[{step(turn).phase, step(turn).block}];
        sum += bytes;
        room_ = std::max(room_, sum);
      }
    }
    room_ = by_block.empty() ? largest : room_;
  }

  /// From here on, the result of the next gather in order no longer counts as ahead.
  void need(const Turn& turn, std::vector<Turn>& out) {
    if (needed_ == begun_) {
      out.push_back(turn);
      ++begun_;
    } else {
      ahead_ -= bytes_of(turn);
    }
    ++needed_;
  }
  void begin_more(std::vector<Turn>& out) {
    while (begun_ < gathers_.size() && ahead_ + bytes_of(gathers_[begun_]) <= room_) {
      ahead_ += bytes_of(gathers_[begun_]);
      out.push_back(gathers_[begun_]);
      ++begun_;
    }
  }

  const Placed& placed_;
  const RunOrder& order_;
  int pipe_;
  const Tasks& tasks_;
  std::vector<Turn> gathers_;  ///< in order
  std::int64_t room_ = 0;      ///< bytes
  std::int64_t ahead_ = 0;     ///< bytes of those that have started and are not needed yet
  std::size_t begun_ = 0;      ///< how many of them
  std::size_t needed_ = 0;     ///< likewise
};

}  // namespace

RunOrder start_gathers_early(const Placed& placed, RunOrder order) {
  for (int pipe = 0; pipe < order.places(); ++pipe) {
    if (!order.at(pipe).empty()) {
      order.set_turns(pipe, EarlyGathers(placed, order, pipe, order.at(pipe)).run());
    }
  }
  return order;
}

}  // namespace trireme::partition
