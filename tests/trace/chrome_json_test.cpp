#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "damage.h"
#include "expect_error.h"
#include "trace/random_trace.h"
#include "trireme/error.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

Trace small_trace() {
  Trace trace;
  trace.kind = TraceKind::Predicted;
  trace.title = "ring, 2 ranks";
  trace.details = {{"ranks", std::int64_t{2}}};
  const TrackId send = trace.add_track("rank 0", "send");
  trace.add_track("rank 0", "compute");
  const TrackId receive = trace.add_track("rank 1", "receive");
  trace.add_span({.track = send,
                  .name = "step 0",
                  .category = "send",
                  .start = {1e-9},
                  .duration = {1.5e-6},
                  .args = {{"bytes", std::int64_t{1024}}, {"load", 0.5}, {"peer", "rank 1"}}});
  trace.add_span({.track = receive,
                  .name = "step 0",
                  .category = "receive",
                  .start = {0},
                  .duration = {2e-6}});
  trace.counters.push_back({.track = receive, .name = "memory", .time = {2e-6}, .value = 64});
  trace.flows.push_back({.from = {0}, .to = {1}});
  return trace;
}

std::string failure(const std::string& text) {
  return error_message(ErrorKind::Input, [&] { (void)parse_trace(text); });
}

TEST(ChromeJson, MatchesGoldenText) {
  EXPECT_EQ(
      to_chrome_json(small_trace()),
      R"({"displayTimeUnit":"ns","otherData":{"format":"trireme-trace-1","kind":"predicted","title":"ring, 2 ranks","details":{"ranks":2}},
"traceEvents":[
{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"rank 0"}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"send"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"compute"}},
{"ph":"M","pid":3,"tid":3,"name":"process_name","args":{"name":"rank 1"}},
{"ph":"M","pid":3,"tid":3,"name":"thread_name","args":{"name":"receive"}},
{"ph":"X","pid":1,"tid":1,"ts":0.001,"dur":1.5,"name":"step 0","cat":"send","args":{"bytes":1024,"load":0.5,"peer":"rank 1"}},
{"ph":"X","pid":3,"tid":3,"ts":0,"dur":2,"name":"step 0","cat":"receive"},
{"ph":"C","pid":3,"tid":3,"ts":2,"name":"memory","args":{"value":64.0}},
{"ph":"s","pid":1,"tid":1,"id":1,"ts":0.001,"name":"flow","cat":"flow","args":{"span":0}},
{"ph":"f","pid":3,"tid":3,"id":1,"bp":"e","ts":0.001,"name":"flow","cat":"flow","args":{"span":1}}
]}
)");
}

TEST(ChromeJson, RoundTripsAnyTrace) {
  RandomTrace traces(4);
  std::size_t spans = 0;
  std::size_t flows = 0;
  for (int i = 0; i < 300; ++i) {
    const Trace trace = traces.make();
    const std::string text = to_chrome_json(trace);
    ASSERT_EQ(parse_trace(text), trace) << text;
    spans += trace.spans.size();
    flows += trace.flows.size();
  }
  EXPECT_GT(spans, 10'000U);
  EXPECT_GT(flows, 500U);
}

/// What a viewer needs in each event, checked with another parser.
TEST(ChromeJson, EveryEventHasFieldsViewersNeed) {
  RandomTrace traces(5);
  for (int i = 0; i < 30; ++i) {
    const Trace trace = traces.make();
    const Json document = Json::parse(to_chrome_json(trace));
    std::map<int, double> flow_starts;
    for (const Json& event : document.at("traceEvents")) {
      ASSERT_GT(event.at("pid").get<int>(), 0);
      ASSERT_GT(event.at("tid").get<int>(), 0);
      ASSERT_TRUE(event.at("name").is_string());
      const auto phase = event.at("ph").get<std::string>();
      if (phase != "M") {
        ASSERT_TRUE(event.at("ts").is_number());
      }
      if (phase == "X") {
        ASSERT_GE(event.at("dur").get<double>(), 0);
      } else if (phase == "s") {
        flow_starts[event.at("id").get<int>()] = event.at("ts").get<double>();
      } else if (phase == "f") {
        ASSERT_GE(event.at("ts").get<double>(), flow_starts.at(event.at("id").get<int>()));
      }
    }
  }
}

TEST(ChromeJson, RejectsInvalidTrace) {
  Trace trace = small_trace();
  trace.spans[0].duration = {-1};
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)to_chrome_json(trace); }),
            "cannot write the trace: span 0 ('step 0') takes -1 s; durations go from 0 to 1e+12 s");
}

TEST(ChromeJson, KeepsManySpans) {
  Trace trace;
  const TrackId track = trace.add_track("rank 0", "compute");
  for (int i = 0; i < 100'000; ++i) {
    trace.add_span({.track = track,
                    .name = "matmul",
                    .category = "compute",
                    .start = {i * 1e-6},
                    .duration = {9e-7},
                    .args = {{"flops", std::int64_t{i}}}});
  }
  EXPECT_EQ(parse_trace(to_chrome_json(trace)), trace);
}

TEST(ParseTrace, ErrorsNameEventOrLine) {
  const std::string good = to_chrome_json(small_trace());
  ASSERT_NO_THROW((void)parse_trace(good));
  const auto broken = [&](const char* from, const char* to) {
    return failure(replaced(good, from, to));
  };
  EXPECT_EQ(broken(R"("dur":1.5)", R"("dur":"long")"), "trace: event 6: 'dur' is not a number");
  EXPECT_EQ(broken(R"("dur":1.5)", R"("dur":-1.5)"),
            "trace: span 0 ('step 0') takes -1.5e-06 s; durations go from 0 to 1e+12 s");
  EXPECT_EQ(broken(R"("dur":1.5,)", ""), "trace: event 6: 'dur' is missing");
  EXPECT_EQ(broken(R"("dur":1.5)", R"("dur":1.5,"dur":2)"),
            "trace: event 6: field 'dur' is given twice");
  EXPECT_EQ(broken(R"("dur":1.5)", R"("durr":1.5)"), "trace: event 6: unknown field 'durr'");
  EXPECT_EQ(broken(R"("dur":1.5)", R"("dur":{})"),
            "trace: event 6: an object cannot stand at 'dur'");
  EXPECT_EQ(broken(R"("dur":1.5)", R"("dur":null)"), "trace: 'dur' is null");
  EXPECT_EQ(broken(R"("ph":"X","pid":1,"tid":1)", R"("ph":"X","pid":1,"tid":9)"),
            "trace: event 6: thread 9 has no name yet");
  EXPECT_EQ(broken(R"("ph":"X","pid":1,"tid":1)", R"("ph":"X","pid":3,"tid":1)"),
            "trace: event 6: thread 1 belongs to another process");
  EXPECT_EQ(broken(R"("ph":"X")", R"("ph":"B")"), "trace: event 6: unknown phase 'B'");
  EXPECT_EQ(broken(R"("tid":2)", R"("tid":3)"),
            "trace: event 3: threads are not numbered 1, 2, … in order");
  EXPECT_EQ(broken(R"({"value":64.0})", R"({"value":"64"})"),
            "trace: event 8: 'args' must hold just 'value', of the right type");
  EXPECT_EQ(broken(R"("span":1)", R"("span":2)"),
            "trace: flow 0 joins spans 0 and 2, but there are 2");
  EXPECT_EQ(broken(R"("bytes":1024)", R"("bytes":18446744073709551615)"),
            "trace: 'bytes' is 18446744073709551615, more than 63 bits");
  EXPECT_EQ(broken(R"("kind":"predicted")", R"("kind":"guessed")"),
            "trace: otherData: 'kind' cannot be 'guessed'");
  EXPECT_EQ(broken(R"("name":"rank 1")", R"("name":"rank 0")"),
            "trace: the numbers and names of processes do not match");
  EXPECT_EQ(broken(R"("tid":2,)", R"("tid":2)").rfind("trace: line 5, column 31: ", 0), 0U)
      << broken(R"("tid":2,)", R"("tid":2)");
}

TEST(ParseTrace, RejectsTracesOfOtherPrograms) {
  const std::string answer =
      "trace: not a trace that Trireme wrote: it does not begin with otherData.format "
      "\"trireme-trace-1\"";
  EXPECT_EQ(failure("[]"), answer);
  EXPECT_EQ(failure(R"([{"ph":"X","ts":0,"dur":1,"pid":1,"tid":1,"name":"a"}])"), answer);
  EXPECT_EQ(failure(R"({"traceEvents":[]})"), answer);
  EXPECT_EQ(failure("{}"), "trace: missing list \"traceEvents\"");
}

TEST(ParseTrace, SurvivesHostileDocuments) {
  (void)failure(std::string(1'000'000, '['));
  const std::string good = to_chrome_json(small_trace());
  (void)failure(replaced(good, R"("dur":1.5)", R"("dur":)" + std::string(1'000'000, '[')));
  (void)failure(replaced(good, R"("dur":1.5)", R"("dur":1e999)"));
  (void)failure(replaced(good, R"("tid":2)", R"("tid":99999999999999999999999)"));
  (void)failure("");
  (void)failure(good + good);
}

/// Any input gives either a valid trace or an Error.
TEST(ParseTrace, SurvivesDamagedDocuments) {
  RandomTrace traces(6);
  std::mt19937 random(6);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text =
        damaged(to_chrome_json(i % 2 == 0 ? small_trace() : traces.make()), random);
    try {
      ASSERT_TRUE(problems(parse_trace(text)).empty());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2500);
}

}  // namespace
}  // namespace trireme
