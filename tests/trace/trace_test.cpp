#include "trireme/trace.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "trace/random_trace.h"

namespace trireme {
namespace {

/// An outer span with two adjacent ones inside it, and one on another track that receives from the
/// first.
Trace sound_trace() {
  Trace trace;
  const TrackId a = trace.add_track("rank 0", "send");
  const TrackId b = trace.add_track("rank 1", "receive");
  trace.add_span({.track = a, .name = "outer", .category = "x", .start = {1}, .duration = {4}});
  trace.add_span({.track = a, .name = "left", .category = "x", .start = {1}, .duration = {2}});
  trace.add_span({.track = a,
                  .name = "right",
                  .category = "x",
                  .start = {3},
                  .duration = {2},
                  .args = {{"n", 1.5}}});
  trace.add_span({.track = b, .name = "get", .category = "x", .start = {2}, .duration = {2}});
  trace.counters.push_back({.track = a, .name = "memory", .time = {2}, .value = 7});
  trace.flows.push_back({.from = {1}, .to = {3}});
  return trace;
}

TEST(Trace, ValidTracesHaveNoProblems) {
  EXPECT_TRUE(problems(sound_trace()).empty());
  EXPECT_TRUE(problems(Trace()).empty());
  RandomTrace traces(21);
  for (int i = 0; i < 200; ++i) {
    const std::vector<std::string> found = problems(traces.make());
    ASSERT_TRUE(found.empty()) << found.front();
  }
}

TEST(Trace, AppendedTracesKeepTheirContents) {
  RandomTrace traces(22);
  for (int i = 0; i < 100; ++i) {
    const Trace first = traces.make();
    const Trace second = traces.make();
    Trace both = first;
    both.append(second);
    ASSERT_TRUE(problems(both).empty()) << problems(both).front();
    EXPECT_EQ(both.title, first.title);
    EXPECT_EQ(both.details, first.details);
    ASSERT_EQ(both.spans.size(), first.spans.size() + second.spans.size());
    ASSERT_EQ(both.counters.size(), first.counters.size() + second.counters.size());
    ASSERT_EQ(both.flows.size(), first.flows.size() + second.flows.size());
    const auto track_of = [](const Trace& trace, const auto& entry) {
      return trace.tracks[static_cast<std::size_t>(entry.track.index)];
    };
    const auto span_of = [](const Trace& trace, SpanId id) {
      Trace::Span span = trace.spans[static_cast<std::size_t>(id.index)];
      span.track = {};
      return span;
    };
    for (std::size_t s = 0; s < second.spans.size(); ++s) {
      const SpanId id{static_cast<std::int64_t>(s)};
      const SpanId moved{static_cast<std::int64_t>(first.spans.size() + s)};
      EXPECT_EQ(span_of(both, moved), span_of(second, id));
      EXPECT_EQ(track_of(both, both.spans[first.spans.size() + s]),
                track_of(second, second.spans[s]));
    }
    for (std::size_t c = 0; c < second.counters.size(); ++c) {
      EXPECT_EQ(track_of(both, both.counters[first.counters.size() + c]),
                track_of(second, second.counters[c]));
    }
    for (std::size_t f = 0; f < second.flows.size(); ++f) {
      const Trace::Flow& flow = both.flows[first.flows.size() + f];
      EXPECT_EQ(span_of(both, flow.from), span_of(second, second.flows[f].from));
      EXPECT_EQ(span_of(both, flow.to), span_of(second, second.flows[f].to));
    }
  }
}

TEST(Trace, ToleratesRoundingOverlaps) {
  Trace trace;
  const TrackId track = trace.add_track("rank 0", "compute");
  double at = 0.1;
  for (int i = 0; i < 1000; ++i) {
    trace.add_span({.track = track, .name = "s", .category = "", .start = {at}, .duration = {0.1}});
    at = 0.1 * (i + 2);  // not the same as adding 0.1 each time
  }
  EXPECT_TRUE(problems(trace).empty());
}

struct Flaw {
  const char* words;
  std::function<void(Trace&)> plant;
};

TEST(Trace, VerifyFindsEveryPlantedFlaw) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Flaw> flaws{
      {"span 1 ('left') is on track 9, but there are 2", [](Trace& t) { t.spans[1].track = {9}; }},
      {"on track -1", [](Trace& t) { t.spans[1].track = {-1}; }},
      {"span 1 ('left') takes -1 s", [](Trace& t) { t.spans[1].duration = {-1}; }},
      {"starts at nan s", [nan](Trace& t) { t.spans[1].start = {nan}; }},
      {"starts at -1 s", [](Trace& t) { t.spans[1].start = {-1}; }},
      {"takes 1e+13 s", [](Trace& t) { t.spans[0].duration = {1e13}; }},
      {"span 2 ('right') starts inside span 0 ('outer') but ends after it",
       [](Trace& t) { t.spans[2].duration = {2.1}; }},
      {"span 2 ('right') starts inside span 1 ('left') but ends after it",
       [](Trace& t) { t.spans[2].start = {2.9}; }},
      {"flow 0 joins spans 1 and 4, but there are 4", [](Trace& t) { t.flows[0].to = {4}; }},
      {"flow 0 joins spans -1", [](Trace& t) { t.flows[0].from = {-1}; }},
      {"flow 0 points back in time",
       [](Trace& t) {
         t.flows[0] = {.from = {2}, .to = {1}}, t.spans[2].start = {3.5}, t.spans[2].duration = {1};
       }},
      {"'n' is nan", [nan](Trace& t) { t.spans[2].args[0].value = nan; }},
      {"'n' is given twice",
       [](Trace& t) {
         t.spans[2].args.push_back({"n", "again"});
       }},
      {"counter 'memory' is inf",
       [](Trace& t) { t.counters[0].value = std::numeric_limits<double>::infinity(); }},
      {"counter 'memory' is on track 2", [](Trace& t) { t.counters[0].track = {2}; }},
      {"counter 'memory' is at -3 s", [](Trace& t) { t.counters[0].time = {-3}; }},
      {"there already is a 'send' of 'rank 0'", [](Trace& t) { t.tracks[1] = t.tracks[0]; }},
      {"title is not UTF-8", [](Trace& t) { t.title = "\xff"; }},
      {"span 3: its name or category is not UTF-8", [](Trace& t) { t.spans[3].name = "\xc0\x80"; }},
  };
  for (const Flaw& flaw : flaws) {
    Trace trace = sound_trace();
    flaw.plant(trace);
    std::string all;
    for (const std::string& problem : problems(trace)) {
      all += problem + "\n";
    }
    EXPECT_NE(all.find(flaw.words), std::string::npos)
        << "wanted: " << flaw.words << "\ngot: " << all;
  }
}

TEST(Trace, ListsAtMostHundredProblems) {
  Trace trace;
  for (int i = 0; i < 1000; ++i) {
    trace.add_span({.track = {7}, .name = "lost", .category = "", .start = {-1}, .duration = {-1}});
  }
  EXPECT_EQ(problems(trace).size(), 100U);
}

}  // namespace
}  // namespace trireme
