// The trace of a simulated step. One thread at a time.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/op.h"
#include "trireme/program.h"
#include "trireme/trace.h"

namespace trireme::simulate {

inline constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// A communication op of a rank: where it is, and when it took place.
struct Exchange {
  double issued = kUnknown;
  double ready = kUnknown;  ///< when all ranks that it needs have issued it
  double start = kUnknown;  ///< of the transfer: later if links are busy
  double end = kUnknown;
};

/// Appends the spans of a step to a trace, on the tracks that a run has.
class StepRecorder {
 public:
  /// The trace must outlive it.
  StepRecorder(Trace& trace, std::size_t ranks);

  void compute(int rank, const Instruction& what, const Work& work, double start, double end);
  void wait(int rank, const Instruction& what, double start, double end);
  void exchange(int rank, const Instruction& what, const Exchange& times, double bytes);

 private:
  struct Lane {
    TrackId track{};
    double free = 0;
  };
  struct Tracks {
    std::string process{};
    TrackId compute{};
    TrackId waiting{};
    std::vector<Lane> lanes{};
  };

  void add(TrackId track, const Instruction& what, double start, double end,
           std::vector<TraceArg> args);
  TrackId free_track(int rank, const Exchange& times);

  Trace& trace_;
  IndexedVector<int, Tracks> tracks_;
};

}  // namespace trireme::simulate
