// Traces for property tests: any shape without problems(), the same for the same seed.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "trireme/trace.h"

namespace trireme {

class RandomTrace {
 public:
  explicit RandomTrace(unsigned seed) : random_(seed) {}

  [[nodiscard]] Trace make();

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  /// From 0 to 1, with all digits of a double.
  double fraction() { return static_cast<double>(random_()) / 18446744073709551616.0; }
  std::string word();
  TraceArg arg(int number);
  std::vector<TraceArg> args();
  /// Fills [start, end] of a track with adjacent spans, and those with nested spans.
  void fill(Trace& trace, TrackId track, double start, double end, int depth);
  void add_flows(Trace& trace);

  std::mt19937_64 random_;
};

}  // namespace trireme
