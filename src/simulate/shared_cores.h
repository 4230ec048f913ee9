// The cores of a host and the ranks that compute on them, as an operating system shares them out: a rank that has a core
// keeps it until it waits or, if others queue for that core, until its turn ends. A rank that wakes up takes the core that
// it had or an idle one, or else queues for the one that it had. It moves from the queue to an idle core only when a turn
// ends there. So with more ranks than cores a rank does not progress by its fair share at every moment: the rank that
// others wait for may be in a queue, even while a core is idle.
//
// Transfers use cores as well, by the threads that move their data. They share them with what computes.
//
// One thread at a time.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "trireme/shared_cores.h"

namespace trireme::simulate {

class CoreSchedule {
 public:
  CoreSchedule(const SharedCores& cores, int ranks);

  /// The rank has work of so many seconds on a core of its own, from now on. It keeps the core that it holds, or else
  /// queues for one.
  void run(int rank, double seconds);
  /// The rank waits for something. Does nothing if it holds no core.
  void release(int rank);
  [[nodiscard]] bool holds_core(int rank);
  /// Between these times, transfers use so many cores.
  void use(double start, double end, double cores);
  /// How much longer than alone a transfer on so many cores takes now.
  [[nodiscard]] double crowding(double cores) const;

  /// When something happens next; infinite if nothing does.
  [[nodiscard]] double next() const;
  /// Lets time pass, at most until next().
  void advance_to(double time);
  /// At next(): a rank whose work is done, if that is what happened. It still holds its core: call run() or release().
  [[nodiscard]] std::optional<int> step();

 private:
  struct Runner {
    int rank = 0;
    double left = 0;  ///< seconds of work
    bool done = false;
  };
  /// Of one rank at a time: a core, or as many as a rank has threads.
  struct Place {
    std::optional<Runner> runner{};
    double turn_ends = 0;
    std::deque<Runner> queue{};
  };

  [[nodiscard]] static bool is_computing(const Place& place);
  [[nodiscard]] static std::size_t waiting(const Place& place);
  [[nodiscard]] static Runner taken_first(Place& place);
  [[nodiscard]] double used() const;
  [[nodiscard]] double slowness() const;
  [[nodiscard]] Place* place_of(int rank);
  [[nodiscard]] Place* idle_place();
  [[nodiscard]] Place& place_for(int rank);
  [[nodiscard]] std::size_t first_place(int rank) const;
  void start(Place& place, const Runner& runner);
  void end_turn(Place& place);

  SharedCores cores_;
  int ranks_;
  double now_ = 0;
  double transfers_ = 0;  ///< cores that they use now
  std::vector<Place> places_;
  std::map<int, std::size_t> last_place_;  ///< by rank
  std::map<double, double> changes_;       ///< by time: of the cores that transfers use
};

}  // namespace trireme::simulate
