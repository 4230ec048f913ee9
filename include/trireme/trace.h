// Trace: a measured or predicted timeline: spans on tracks, counters, and arrows between spans.
//
// The simulator and a real run produce the same type, so that prediction and measurement can be compared side by side.
// Plain data; all functions may be called from any thread, but only one thread at a time may build a trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// Index into Trace::tracks.
struct TrackId {
  std::int32_t index = 0;
  friend bool operator==(const TrackId&, const TrackId&) = default;
};

/// Index into Trace::spans.
struct SpanId {
  std::int64_t index = 0;
  friend bool operator==(const SpanId&, const SpanId&) = default;
};

enum class TraceKind { Predicted, Measured };
/// "predicted", "measured".
[[nodiscard]] std::string_view to_text(TraceKind kind);

/// A named fact: bytes, flops, peer, …
struct TraceArg {
  std::string key;
  std::variant<std::int64_t, double, std::string> value;
  friend bool operator==(const TraceArg&, const TraceArg&) = default;
};

struct Trace {
  /// One row of the timeline: the activity of one thread, stream or port of a process.
  struct Track {
    std::string process{};  ///< "rank 0"
    std::string thread{};   ///< "compute", "send", …
    friend bool operator==(const Track&, const Track&) = default;
  };

  /// Something that took time. Spans of one track are nested or disjoint.
  struct Span {
    TrackId track{};
    std::string name{};
    std::string category{};  ///< kind of activity, for filters and colors: "compute", "send", …
    Seconds start{};
    Seconds duration{};
    std::vector<TraceArg> args{};
    friend bool operator==(const Span&, const Span&) = default;
  };

  /// A quantity at one moment: memory in use, loss. Belongs to the process of its track.
  struct Counter {
    TrackId track{};
    std::string name{};
    Seconds time{};
    double value = 0;
    friend bool operator==(const Counter&, const Counter&) = default;
  };

  /// An arrow, such as from a send to its receive.
  struct Flow {
    SpanId from{};
    SpanId to{};
    friend bool operator==(const Flow&, const Flow&) = default;
  };

  TraceKind kind = TraceKind::Measured;
  std::string title;
  std::vector<TraceArg> details;  ///< facts about the whole trace: machine, plan, …
  std::vector<Track> tracks;
  std::vector<Span> spans;
  std::vector<Counter> counters;
  std::vector<Flow> flows;

  /// Appends a track.
  TrackId add_track(std::string process, std::string thread);
  /// Appends a span.
  SpanId add_span(Span span);
  /// Appends the tracks, spans, counters and arrows of another trace, such as another rank's. Keeps this trace's title
  /// and details.
  void append(const Trace& other);

  friend bool operator==(const Trace&, const Trace&) = default;
};

/// The first hundred errors, in words; empty if the trace is valid. Checks that ids exist, names are UTF-8, times are
/// from 0 to 1e12 s, numbers are finite, spans of one track are nested or disjoint (overlaps within rounding, or below
/// a picosecond, are tolerated), and no arrow points back in time.
[[nodiscard]] std::vector<std::string> problems(const Trace& trace);

/// The `.trace.json` text: Chrome's trace event format, which Perfetto and chrome://tracing open,
/// one event a line. Times are written in decimal microseconds without loss. Throws Error(Usage)
/// with the first of problems() if there is one.
[[nodiscard]] std::string to_chrome_json(const Trace& trace);

/// Reads what to_chrome_json wrote, as an equal trace without problems(). Throws Error(Input) that names the line or
/// the event. Rejects traces of other programs.
[[nodiscard]] Trace parse_trace(std::string_view text);

}  // namespace trireme
