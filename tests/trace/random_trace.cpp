#include "trace/random_trace.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

namespace trireme {

std::string RandomTrace::word() {
  static const std::vector<std::string> letters{"a",    "Z", "0", " ", "\"", "\\", "\n",
                                                "\x7f", "µ", "…", "{", ",",  ":"};
  std::string word;
  for (int i = below(12); i > 0; --i) {
    word += letters[static_cast<std::size_t>(below(static_cast<int>(letters.size())))];
  }
  return word;
}

TraceArg RandomTrace::arg(int number) {
  const std::string key = fmt::format("{}{}", word(), number);
  switch (below(3)) {
    case 0:
      return {key, std::bit_cast<std::int64_t>(random_())};
    case 1: {
      const auto any = std::bit_cast<double>(random_());
      return {key, std::isfinite(any) ? any : static_cast<double>(below(1000))};
    }
    default:
      return {key, word()};
  }
}

std::vector<TraceArg> RandomTrace::args() {
  std::vector<TraceArg> args;
  for (int i = below(4); i > 0; --i) {
    args.push_back(arg(i));
  }
  return args;
}

void RandomTrace::fill(Trace& trace, TrackId track, double start, double end, int depth) {
  double at = start;
  for (int i = below(5); i > 0; --i) {
    const double from = at + fraction() * (end - at) * 0.5;
    const double to = from + fraction() * (end - from);
    trace.add_span({.track = track,
                    .name = word(),
                    .category = word(),
                    .start = {from},
                    .duration = {below(8) == 0 ? 0 : (to - from) * 0.999},
                    .args = args()});
    const Trace::Span span = trace.spans.back();
    if (depth > 0) {
      fill(trace, track, from, from + span.duration.count, depth - 1);
    }
    at = to;
  }
}

void RandomTrace::add_flows(Trace& trace) {
  const int spans = static_cast<int>(trace.spans.size());
  for (int i = spans == 0 ? 0 : below(10); i > 0; --i) {
    const int a = below(spans);
    const int b = below(spans);
    const bool forward = trace.spans[static_cast<std::size_t>(a)].start.count <=
                         trace.spans[static_cast<std::size_t>(b)].start.count;
    trace.flows.push_back({.from = {forward ? a : b}, .to = {forward ? b : a}});
  }
}

Trace RandomTrace::make() {
  Trace trace;
  trace.kind = below(2) == 0 ? TraceKind::Predicted : TraceKind::Measured;
  trace.title = word();
  trace.details = args();
  const double length = std::ldexp(1.0, below(60) - 40);
  for (int i = below(6); i > 0; --i) {
    const TrackId track =
        trace.add_track(fmt::format("{}", below(3)), fmt::format("{}{}", word(), i));
    fill(trace, track, 0, length, 3);
    for (int samples = below(4); samples > 0; --samples) {
      trace.counters.push_back({.track = track,
                                .name = word(),
                                .time = {fraction() * length},
                                .value = fraction() * 1e12 - 5e11});
    }
  }
  add_flows(trace);
  return trace;
}

}  // namespace trireme
