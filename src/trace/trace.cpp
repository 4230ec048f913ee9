#include "trireme/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/json_text.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxProblems = 100;
constexpr double kLatest = 1e12;

bool is_time(Seconds time) {
  return std::isfinite(time.count) && time.count >= 0 && time.count <= kLatest;
}

double end_of(const Trace::Span& span) {
  return span.start.count + span.duration.count;
}

/// Two moments this close count as equal: the ends of spans are sums of doubles, and nothing
/// measures picoseconds.
double slack(double moment) {
  return std::max(1e-12, 4 * std::numeric_limits<double>::epsilon() * moment);
}

class Verifier {
 public:
  explicit Verifier(const Trace& trace) : trace_(trace) {}

  std::vector<std::string> run() {
    check_text("the title", trace_.title);
    check_args("the trace", trace_.details);
    check_tracks();
    for (std::size_t i = 0; i < trace_.spans.size() && !full(); ++i) {
      check_span(i);
    }
    for (std::size_t i = 0; i < trace_.counters.size() && !full(); ++i) {
      check_counter(i);
    }
    if (problems_.empty()) {
      check_overlaps();
      check_flows();
    }
    return std::move(problems_);
  }

 private:
  [[nodiscard]] bool full() const { return problems_.size() >= kMaxProblems; }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!full()) {
      problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }
  }

  [[nodiscard]] std::string name_span(std::size_t i) const {
    return fmt::format("span {} ('{}')", i, trace_.spans[i].name);
  }

  [[nodiscard]] bool has_track(TrackId track) const {
    return track.index >= 0 && track.index < std::ssize(trace_.tracks);
  }

  void check_text(std::string_view what, std::string_view text) {
    if (!is_utf8(text)) {
      add("{} is not UTF-8 text", what);
    }
  }

  void check_args(std::string_view what, const std::vector<TraceArg>& args) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      check_text(what, args[i].key);
      for (std::size_t other = 0; other < i; ++other) {
        if (args[other].key == args[i].key) {
          add("{}: '{}' is given twice", what, args[i].key);
        }
      }
      if (const auto* number = std::get_if<double>(&args[i].value);
          number != nullptr && !std::isfinite(*number)) {
        add("{}: '{}' is {}, which JSON cannot hold", what, args[i].key, *number);
      }
      if (const auto* text = std::get_if<std::string>(&args[i].value)) {
        check_text(what, *text);
      }
    }
  }

  void check_tracks() {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      const Trace::Track& track = trace_.tracks[i];
      check_text("a process name", track.process);
      check_text("a thread name", track.thread);
      if (!seen.emplace(track.process, track.thread).second) {
        add("track {}: there already is a '{}' of '{}'", i, track.thread, track.process);
      }
    }
  }

  void check_span(std::size_t i) {
    const Trace::Span& span = trace_.spans[i];
    if (!has_track(span.track)) {
      add("{} is on track {}, but there are {}", name_span(i), span.track.index,
          trace_.tracks.size());
    }
    if (!is_time(span.start)) {
      add("{} starts at {:g} s; times go from 0 to {:g} s", name_span(i), span.start.count,
          kLatest);
    }
    if (!is_time(span.duration)) {
      add("{} takes {:g} s; durations go from 0 to {:g} s", name_span(i), span.duration.count,
          kLatest);
    }
    if (!is_utf8(span.name) || !is_utf8(span.category)) {
      add("span {}: its name or category is not UTF-8 text", i);
    }
    if (!span.args.empty()) {
      check_args(name_span(i), span.args);
    }
  }

  void check_counter(std::size_t i) {
    const Trace::Counter& counter = trace_.counters[i];
    if (!has_track(counter.track)) {
      add("counter '{}' is on track {}, but there are {}", counter.name, counter.track.index,
          trace_.tracks.size());
    }
    if (!is_time(counter.time)) {
      add("counter '{}' is at {:g} s; times go from 0 to {:g} s", counter.name, counter.time.count,
          kLatest);
    }
    if (!std::isfinite(counter.value)) {
      add("counter '{}' is {}, which JSON cannot hold", counter.name, counter.value);
    }
    check_text("a counter name", counter.name);
  }

  void check_overlaps() {
    std::vector<std::size_t> order(trace_.spans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto key = [&](std::size_t span) {
        const Trace::Span& s = trace_.spans[span];
        return std::tuple(s.track.index, s.start.count, -s.duration.count, span);
      };
      return key(a) < key(b);
    });
    std::vector<std::size_t> open;  // from the outermost span around this moment to the innermost
    for (const std::size_t i : order) {
      const Trace::Span& span = trace_.spans[i];
      const auto over = [&](std::size_t other) {
        const Trace::Span& before = trace_.spans[other];
        return before.track != span.track ||
               end_of(before) <= span.start.count + slack(span.start.count);
      };
      while (!open.empty() && over(open.back())) {
        open.pop_back();
      }
      if (!open.empty() && end_of(span) > end_of(trace_.spans[open.back()]) + slack(end_of(span))) {
        add("{} starts inside {} but ends after it, on track {}", name_span(i),
            name_span(open.back()), span.track.index);
      }
      open.push_back(i);
    }
  }

  void check_flows() {
    const auto count = static_cast<std::int64_t>(trace_.spans.size());
    for (std::size_t i = 0; i < trace_.flows.size() && !full(); ++i) {
      const auto [from, to] = trace_.flows[i];
      if (from.index < 0 || to.index < 0 || from.index >= count || to.index >= count) {
        add("flow {} joins spans {} and {}, but there are {}", i, from.index, to.index, count);
        continue;
      }
      const double sent = trace_.spans[from.index].start.count;
      const double arrived = end_of(trace_.spans[to.index]);
      if (arrived + slack(arrived) < sent) {
        add("flow {} points back in time: span {} ends before span {} starts", i, to.index,
            from.index);
      }
    }
  }

  const Trace& trace_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string_view to_text(TraceKind kind) {
  return kind == TraceKind::Predicted ? "predicted" : "measured";
}

TrackId Trace::add_track(std::string process, std::string thread) {
  tracks.push_back({.process = std::move(process), .thread = std::move(thread)});
  return {static_cast<std::int32_t>(tracks.size() - 1)};
}

SpanId Trace::add_span(Span span) {
  spans.push_back(std::move(span));
  return {static_cast<std::int64_t>(spans.size() - 1)};
}

void Trace::append(const Trace& other) {
  const auto first_track = static_cast<std::int32_t>(tracks.size());
  const auto first_span = static_cast<std::int64_t>(spans.size());
  const auto renumber = [](auto id, auto first) {
    id.index += first;
    return id;
  };
  tracks.insert(tracks.end(), other.tracks.begin(), other.tracks.end());
  for (Span span : other.spans) {
    span.track = renumber(span.track, first_track);
    spans.push_back(std::move(span));
  }
  for (Counter counter : other.counters) {
    counter.track = renumber(counter.track, first_track);
    counters.push_back(std::move(counter));
  }
  for (const Flow& flow : other.flows) {
    flows.push_back({.from = renumber(flow.from, first_span), .to = renumber(flow.to, first_span)});
  }
}

std::vector<std::string> problems(const Trace& trace) {
  return Verifier(trace).run();
}

}  // namespace trireme
