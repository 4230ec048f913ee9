// ClockTable: how many iterations each worker has completed, and the slowest of them. A worker that joins late starts at
// the slowest clock and one that leaves no longer counts, so the slowest never goes back. Pure; one thread at a time.
#pragma once

#include <map>
#include <optional>

#include "ps/protocol/ids.h"
#include "trireme/ps_table.h"

namespace trireme::ps {

class ClockTable {
 public:
  [[nodiscard]] bool has(NodeId worker) const { return clocks_.contains(worker); }
  /// False while a clock is not known: a new worker might start behind it.
  [[nodiscard]] bool can_join() const;
  /// The clock at which the worker starts: `own`, but not before the slowest. Requires can_join().
  ClockCount join(NodeId worker, ClockCount own);
  /// A worker that joined before a restart, whose clock is not known yet. Until it is, nobody is the slowest.
  void rejoin(NodeId worker, ClockCount start);
  /// Clocks never go back. Requires has(worker).
  void advance(NodeId worker, ClockCount own);
  void leave(NodeId worker) { clocks_.erase(worker); }
  /// Nothing if there are no workers or a clock is not known.
  [[nodiscard]] std::optional<ClockCount> slowest() const;

 private:
  struct Clock {
    ClockCount count = 0;
    bool is_known = true;
  };
  std::map<NodeId, Clock> clocks_;
};

}  // namespace trireme::ps
