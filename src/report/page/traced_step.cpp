#include "report/page/traced_step.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <variant>

namespace trireme::report {
namespace {

constexpr std::string_view kExchanges = "exchanges ";
constexpr std::string_view kMemory = " bytes";  ///< "activation bytes"

TracedRank& rank_named(std::vector<TracedRank>& ranks, const std::string& name) {
  const auto found = std::ranges::find(ranks, name, &TracedRank::name);
  if (found != ranks.end()) {
    return *found;
  }
  ranks.push_back({.name = name});
  return ranks.back();
}

/// "exchanges 2" is lane 2.
int lane_of(std::string_view thread) {
  int lane = 0;
  thread.remove_prefix(std::min(kExchanges.size(), thread.size()));
  std::from_chars(thread.data(), thread.data() + thread.size(), lane);
  return lane;
}

void add_span(TracedRank& rank, const Trace::Track& track, const Trace::Span& span) {
  if (track.thread == "compute") {
    rank.kernels.push_back(&span);
  } else if (track.thread == "waiting") {
    rank.waits.push_back(&span);
  } else if (track.thread.starts_with(kExchanges)) {
    rank.exchanges.push_back({.span = &span, .lane = lane_of(track.thread)});
  }
}

const Trace::Track& track_of(const Trace& trace, TrackId id) {
  return trace.tracks.at(static_cast<std::size_t>(id.index));
}

bool is_message(const Trace::Span& span) {
  return span.name == "send" || span.name == "receive";
}

std::string text_of(const Trace::Span& span, std::string_view key) {
  const auto found = std::ranges::find(span.args, key, &TraceArg::key);
  const auto* text = found != span.args.end() ? std::get_if<std::string>(&found->value) : nullptr;
  return text != nullptr ? *text : "";
}

using Totals = std::map<std::pair<std::string, std::string>, OpTotals>;

void add_to(Totals& totals, const Trace::Span& span, const std::string& group) {
  OpTotals& one = totals[{span.name, group}];
  one.op = span.name;
  one.group = group;
  ++one.calls;
  one.bytes += number_of(span, "bytes");
  one.seconds += span.duration.count;
}

std::vector<OpTotals> sorted(const Totals& totals, double OpTotals::*by) {
  std::vector<OpTotals> all;
  for (const auto& [key, one] : totals) {
    all.push_back(one);
  }
  std::ranges::stable_sort(all, std::greater<>(), by);
  return all;
}

}  // namespace

std::vector<TracedRank> traced_ranks(const Trace& trace) {
  std::vector<TracedRank> ranks;
  for (const Trace::Track& track : trace.tracks) {
    rank_named(ranks, track.process);
  }
  for (const Trace::Span& span : trace.spans) {
    const Trace::Track& track = track_of(trace, span.track);
    add_span(rank_named(ranks, track.process), track, span);
  }
  for (const Trace::Counter& counter : trace.counters) {
    rank_named(ranks, track_of(trace, counter.track).process).counters.push_back(&counter);
  }
  return ranks;
}

Seconds end_of(const Trace& trace) {
  double end = 0;
  for (const Trace::Span& span : trace.spans) {
    end = std::max(end, span.start.count + span.duration.count);
  }
  return {end};
}

double number_of(const Trace::Span& span, std::string_view key) {
  const auto found = std::ranges::find(span.args, key, &TraceArg::key);
  if (found == span.args.end()) {
    return 0;
  }
  if (const auto* whole = std::get_if<std::int64_t>(&found->value)) {
    return static_cast<double>(*whole);
  }
  const auto* number = std::get_if<double>(&found->value);
  return number != nullptr ? *number : 0;
}

bool has_products(const Trace& trace) {
  return std::ranges::any_of(trace.spans, [](const Trace::Span& span) {
    return std::ranges::find(span.args, "products", &TraceArg::key) != span.args.end();
  });
}

std::vector<RankTimes> times_of(const std::vector<TracedRank>& ranks, Seconds until) {
  const auto within = [&](const Trace::Span& span) {
    return std::clamp(until.count - span.start.count, 0.0, span.duration.count);
  };
  std::vector<RankTimes> all;
  for (const TracedRank& rank : ranks) {
    RankTimes times{.name = rank.name};
    for (const Trace::Span* span : rank.kernels) {
      (number_of(*span, "products") > 0 ? times.products : times.others) += within(*span);
    }
    for (const Trace::Span* span : rank.waits) {
      (is_message(*span) ? times.messages : times.collectives) += within(*span);
    }
    all.push_back(times);
  }
  return all;
}

RankTimes mean_of(const std::vector<RankTimes>& ranks) {
  RankTimes mean{.name = "mean"};
  const auto count = static_cast<double>(ranks.size());
  for (const RankTimes& rank : ranks) {
    mean.products += rank.products / count;
    mean.others += rank.others / count;
    mean.messages += rank.messages / count;
    mean.collectives += rank.collectives / count;
  }
  return mean;
}

std::vector<OpTotals> exchanged(const std::vector<TracedRank>& ranks) {
  Totals totals;
  for (const TracedRank& rank : ranks) {
    for (const TracedExchange& exchange : rank.exchanges) {
      add_to(totals, *exchange.span, text_of(*exchange.span, "group"));
    }
  }
  return sorted(totals, &OpTotals::bytes);
}

std::vector<OpTotals> computed(const std::vector<TracedRank>& ranks) {
  Totals totals;
  for (const TracedRank& rank : ranks) {
    for (const Trace::Span* span : rank.kernels) {
      add_to(totals, *span, span->category);
    }
  }
  return sorted(totals, &OpTotals::seconds);
}

double MemoryMoment::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

const MemoryMoment& MemoryCourse::peak() const {
  return *std::ranges::max_element(moments, {}, &MemoryMoment::total);
}

MemoryCourse memory_of(const TracedRank& rank) {
  MemoryCourse course;
  for (const Trace::Counter* counter : rank.counters) {
    if (!counter->name.ends_with(kMemory)) {
      continue;
    }
    const std::string name = counter->name.substr(0, counter->name.size() - kMemory.size());
    const auto found = std::ranges::find(course.categories, name);
    const auto at = static_cast<std::size_t>(found - course.categories.begin());
    if (found == course.categories.end()) {
      course.categories.push_back(name);
    }
    if (course.moments.empty() || course.moments.back().time != counter->time.count) {
      course.moments.push_back(course.moments.empty() ? MemoryMoment{} : course.moments.back());
      course.moments.back().time = counter->time.count;
    }
    std::vector<double>& bytes = course.moments.back().bytes;
    bytes.resize(std::max(bytes.size(), at + 1));
    bytes[at] = counter->value;
  }
  for (MemoryMoment& moment : course.moments) {
    moment.bytes.resize(course.categories.size());
  }
  return course;
}

}  // namespace trireme::report
