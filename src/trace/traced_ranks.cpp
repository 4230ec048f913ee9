#include "trace/traced_ranks.h"

#include <algorithm>
#include <charconv>
#include <variant>

namespace trireme {
namespace {

constexpr std::string_view kExchanges = "exchanges ";

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

void add_span_to(TracedRank& rank, const Trace::Track& track, const Trace::Span& span) {
  if (track.thread == "compute") {
    rank.kernels.push_back(&span);
  } else if (track.thread == "waiting") {
    rank.waits.push_back(&span);
  } else if (track.thread.starts_with(kExchanges)) {
    rank.exchanges.push_back({.span = &span, .lane = lane_of(track.thread)});
  }
}

const Trace::Track& track_at(const Trace& trace, TrackId id) {
  return trace.tracks.at(id.index);
}

bool is_message(const Trace::Span& span) {
  return span.name == "send" || span.name == "receive";
}

bool is_attention(const Trace::Span& span) {
  return span.name.find("attention") != std::string::npos;
}

/// The category of a kernel's time.
double RankTimes::*kernel_time(const Trace::Span& span) {
  if (number_of(span, "products") > 0) {
    return is_attention(span) ? &RankTimes::attention : &RankTimes::products;
  }
  return span.category == "recompute" ? &RankTimes::recomputed : &RankTimes::memory_bound;
}

}  // namespace

std::vector<TracedRank> traced_ranks(const Trace& trace) {
  std::vector<TracedRank> ranks;
  for (const Trace::Track& track : trace.tracks) {
    rank_named(ranks, track.process);
  }
  for (const Trace::Span& span : trace.spans) {
    const Trace::Track& track = track_at(trace, span.track);
    add_span_to(rank_named(ranks, track.process), track, span);
  }
  for (const Trace::Counter& counter : trace.counters) {
    rank_named(ranks, track_at(trace, counter.track).process).counters.push_back(&counter);
  }
  return ranks;
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
      times.*kernel_time(*span) += within(*span);
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
    for (const auto part :
         {&RankTimes::products, &RankTimes::attention, &RankTimes::memory_bound,
          &RankTimes::recomputed, &RankTimes::messages, &RankTimes::collectives}) {
      mean.*part += rank.*part / count;
    }
  }
  return mean;
}

double attention_share(const std::vector<TracedRank>& ranks) {
  double all = 0;
  double attention = 0;
  for (const TracedRank& rank : ranks) {
    for (const Trace::Span* span : rank.kernels) {
      const double products = number_of(*span, "products");
      all += products;
      attention += is_attention(*span) ? products : 0;
    }
  }
  return all > 0 ? attention / all : 0;
}

}  // namespace trireme
