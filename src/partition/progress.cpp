// Each place runs its turns in order, a turn when everything that it reads is made; receives never block earlier turns.
#include "partition/progress.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme::partition {
namespace {

class Progress {
 public:
  Progress(const Placed& placed, const PipelineTable& table, const RunOrder& order)
      : placed_(placed), table_(table), order_(order), next_(table.ranks, 0) {
    for (int pipe = 0; pipe < table.ranks; ++pipe) {
      std::vector<Turn>& turns = turns_.emplace_back();
      for (const std::vector<Turn>& task : order.at(pipe)) {
        turns.insert(turns.end(), task.begin(), task.end());
      }
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int pipe = 0; pipe < table_.ranks; ++pipe) {
        moved = advance(pipe) || moved;
      }
    }
    for (int pipe = 0; pipe < table_.ranks; ++pipe) {
      if (next_[pipe] < turns(pipe).size()) {
        refuse(pipe, turns(pipe)[next_[pipe]]);
      }
    }
  }

 private:
  [[nodiscard]] const std::vector<Turn>& turns(int pipe) const { return turns_[pipe]; }

  bool advance(int pipe) {
    const std::size_t before = next_[pipe];
    while (next_[pipe] < turns(pipe).size() &&
           find_missing(pipe, turns(pipe)[next_[pipe]]) == nullptr) {
      for (const Instance& what : order_.made_by(turns(pipe)[next_[pipe]])) {
        made_.insert({pipe, what});
      }
      ++next_[pipe];
    }
    return next_[pipe] > before;
  }

  /// An input of the turn from another place that does not exist yet; nullptr if there is none.
  [[nodiscard]] const Read* find_missing(int pipe, const Turn& turn) {
    reads_ = order_.reads_of(pipe, turn);
    const auto it = std::ranges::find_if(reads_, [&](const Read& read) {
      const bool at_start = placed_.copy(read.what.id).step < 0 && read.what.number == 0;
      return read.from != pipe && !at_start && !made_.contains({read.from, read.what});
    });
    return it == reads_.end() ? nullptr : &*it;
  }

  [[nodiscard]] std::string name_of(const Turn& turn) const {
    const int m = order_.micro_of(turn);
    const std::string& value = placed_.value(placed_.steps[turn.step].outputs.front()).name;
    return m < 0 ? "op " + value : fmt::format("op {} of micro-batch {}", value, m);
  }

  [[noreturn]] void refuse(int pipe, const Turn& turn) {
    const Read* missing = find_missing(pipe, turn);
    throw Error(
        ErrorKind::Usage,
        fmt::format("schedule {} cannot run this plan: on device {}, {} waits for {} of device {}, "
                    "which waits for device {} in turn; use schedule gpipe, or one micro-batch",
                    table_.name, pipe, name_of(turn), placed_.value(missing->what.id).name,
                    missing->from, pipe));
  }

  const Placed& placed_;
  const PipelineTable& table_;
  const RunOrder& order_;
  std::vector<std::vector<Turn>> turns_;     ///< by place
  IndexedVector<int, std::size_t> next_;     ///< likewise
  std::set<std::pair<int, Instance>> made_;  ///< by the place that made it
  std::vector<Read> reads_;                  ///< of the last turn checked
};

}  // namespace

void require_progress(const Placed& placed, const PipelineTable& table, const RunOrder& order) {
  Progress(placed, table, order).run();
}

}  // namespace trireme::partition
