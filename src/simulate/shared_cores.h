// Ranks that share the cores of a host. A simulation gives every rank the cores that it asks for; this maps its times to
// those on a host that has fewer. Because everything on the host slows down alike, the order of events stays, and one
// function of time suffices:
//
//   time on the host = integral of slowness(cores in use) over simulated time
//
// More ranks than cores take whole turns at first: three ranks on two cores take as long as four would, because the
// operating system moves a rank to the other core only after some milliseconds. From then on they share fairly.
//
// One thread at a time.
#pragma once

#include <map>
#include <vector>

#include "trireme/shared_cores.h"

namespace trireme::simulate {

class CoreTimeline {
 public:
  explicit CoreTimeline(const SharedCores& cores) : cores_(cores) {}

  /// Between these times, so many cores are in use.
  void use(double start, double end, double cores);
  /// After the last use(): the time on the host.
  [[nodiscard]] double host_time(double simulated);

 private:
  struct Point {
    double simulated = 0;
    double host = 0;
    double slowness = 1;  ///< from here on
  };
  [[nodiscard]] double slowness(double used) const;
  [[nodiscard]] bool is_crowded(double used) const;
  /// Adds a point where the slowness changes.
  void continue_with(double simulated, double slowness);
  void integrate();

  SharedCores cores_;
  std::map<double, double> changes_;  ///< by time: of the cores in use
  std::vector<Point> points_;
};

}  // namespace trireme::simulate
