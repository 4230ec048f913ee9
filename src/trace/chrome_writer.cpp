// Writes a trace in Chrome's trace event format by appending text: a million spans need no tree of
// values.
//
// Process and thread numbers start at 1, because viewers treat number 0 specially. A thread's
// number is its track's index plus one; a process's number is that of its first track.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/json_text.h"
#include "trace/chrome_format.h"
#include "trace/chrome_time.h"
#include "trireme/error.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

class Writer {
 public:
  explicit Writer(const Trace& trace)
      : trace_(trace), process_ids_(chrome_process_ids(trace.tracks)) {}

  std::string run() {
    out_.reserve(1024 +
                 160 * (trace_.spans.size() + trace_.counters.size() + 2 * trace_.flows.size()));
    put_head();
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      put_track(i);
    }
    for (const Trace::Span& span : trace_.spans) {
      put_span(span);
    }
    for (const Trace::Counter& counter : trace_.counters) {
      put_counter(counter);
    }
    for (std::size_t i = 0; i < trace_.flows.size(); ++i) {
      put_flow(i);
    }
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  void put_head() {
    fmt::format_to(std::back_inserter(out_),
                   R"({{"displayTimeUnit":"ns","otherData":{{"format":"{}","kind":"{}","title":)",
                   kChromeFormat, to_text(trace_.kind));
    append_json_string(out_, trace_.title);
    put_args("details", trace_.details);
    out_ += "},\n\"traceEvents\":[";
  }

  /// Starts an event, after the comma that ends the previous one.
  void begin(std::string_view phase, TrackId track) {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(out_), R"({{"ph":"{}","pid":{},"tid":{})", phase,
                   process_ids_[track.index], track.index + 1);
  }

  void put_text(std::string_view field, std::string_view text) {
    fmt::format_to(std::back_inserter(out_), R"(,"{}":)", field);
    append_json_string(out_, text);
  }

  void put_time(std::string_view field, Seconds time) {
    fmt::format_to(std::back_inserter(out_), R"(,"{}":)", field);
    append_microseconds(out_, time);
  }

  void put_args(std::string_view field, const std::vector<TraceArg>& args) {
    fmt::format_to(std::back_inserter(out_), R"(,"{}":{{)", field);
    for (std::size_t i = 0; i < args.size(); ++i) {
      out_ += i == 0 ? "" : ",";
      append_json_string(out_, args[i].key);
      out_ += ':';
      std::visit([this](const auto& value) { put_value(value); }, args[i].value);
    }
    out_ += '}';
  }

  void put_value(std::int64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void put_value(double value) { append_json_number(out_, value); }
  void put_value(const std::string& value) { append_json_string(out_, value); }

  void put_track(std::size_t i) {
    const TrackId track{static_cast<std::int32_t>(i)};
    if (process_ids_[i] == track.index + 1) {
      put_name(kProcessName, track, trace_.tracks[i].process);
    }
    put_name(kThreadName, track, trace_.tracks[i].thread);
  }

  void put_name(std::string_view what, TrackId track, const std::string& name) {
    begin(kMetadata, track);
    put_text("name", what);
    out_ += R"(,"args":{"name":)";
    append_json_string(out_, name);
    out_ += "}}";
  }

  void put_span(const Trace::Span& span) {
    begin(kSpan, span.track);
    put_time("ts", span.start);
    put_time("dur", span.duration);
    put_text("name", span.name);
    put_text("cat", span.category);
    if (!span.args.empty()) {
      put_args("args", span.args);
    }
    out_ += '}';
  }

  void put_counter(const Trace::Counter& counter) {
    begin(kCounter, counter.track);
    put_time("ts", counter.time);
    put_text("name", counter.name);
    out_ += R"(,"args":{"value":)";
    append_json_number(out_, counter.value);
    out_ += "}}";
  }

  void put_flow(std::size_t i) {
    const Trace::Flow& flow = trace_.flows[i];
    const Trace::Span& from = trace_.spans[flow.from.index];
    const Trace::Span& to = trace_.spans[flow.to.index];
    put_flow_end(kFlowStart, i, flow.from, from.start);
    // "bp":"e" binds the end to the span around its time. A viewer drops an arrow that ends before
    // it begins.
    put_flow_end(kFlowEnd, i, flow.to, {std::max(from.start.count, to.start.count)});
  }

  void put_flow_end(std::string_view phase, std::size_t i, SpanId span, Seconds time) {
    begin(phase, trace_.spans[span.index].track);
    fmt::format_to(std::back_inserter(out_), R"(,"id":{}{})", i + 1,
                   phase == kFlowEnd ? R"(,"bp":"e")" : "");
    put_time("ts", time);
    fmt::format_to(std::back_inserter(out_),
                   R"(,"name":"flow","cat":"flow","args":{{"span":{}}}}})", span.index);
  }

  const Trace& trace_;
  std::vector<std::int32_t> process_ids_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::vector<std::int32_t> chrome_process_ids(const std::vector<Trace::Track>& tracks) {
  std::unordered_map<std::string_view, std::int32_t> first;
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    ids.push_back(first.emplace(tracks[i].process, static_cast<std::int32_t>(i + 1)).first->second);
  }
  return ids;
}

std::string to_chrome_json(const Trace& trace) {
  require_valid(trace, ErrorKind::Usage, "cannot write the trace");
  return Writer(trace).run();
}

}  // namespace trireme
