// The trace of a simulated step, on the tracks that a run has. One thread at a time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/op.h"
#include "trireme/program.h"
#include "trireme/trace.h"

namespace trireme::simulate {

/// Of a span, in seconds.
struct Period {
  double start = 0;
  double end = 0;
};

class StepRecorder {
 public:
  /// Appends to the trace, which must outlive this object. Records the ranks of `shown` only; all if there are none.
  StepRecorder(Trace& trace, int ranks, std::span<const int> shown);

  void compute(int rank, const Instruction& what, const Work& work, Period when);
  void wait(int rank, const Instruction& what, Period when);
  /// `shift`: how far the ranks that the instruction names are from those that it means.
  void exchange(int rank, const Instruction& what, Period when, double bytes, int shift);

 private:
  struct Lane {
    TrackId track{};
    double free = 0;
  };
  struct Tracks {
    bool shown = false;
    std::string process{};
    TrackId compute{};
    TrackId waiting{};
    std::vector<Lane> lanes{};
  };

  void add(TrackId track, const Instruction& what, Period when, std::vector<TraceArg> args);
  TrackId free_track(int rank, Period when);

  Trace& trace_;
  IndexedVector<int, Tracks> tracks_;
};

}  // namespace trireme::simulate
