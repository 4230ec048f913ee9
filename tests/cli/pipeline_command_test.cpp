#include <algorithm>

#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"
#include "cli/program_says.h"
#include "report/text_style.h"
#include "trireme/pipeline.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

TEST(PipelineCommand, RejectsBadInputInOneLine) {
  expect_refused("pipeline --schedule gpip", {"--schedule", "did you mean gpipe"});
  expect_refused("pipeline --schedule nothing-such", {"--schedule", "naive", "chimera"});
  expect_refused("pipeline --stages 0", {"--stages", "1"});
  expect_refused("pipeline --microbatches many", {"--microbatches"});
  expect_refused("pipeline --schedule interleaved --chunks 65", {"--chunks", "64"});
  expect_refused("pipeline --schedule gpipe --chunks 2", {"--chunks", "interleaved"});
  expect_refused("pipeline --schedule chimera --stages 5", {"--stages", "chimera", "such as 6"});
  expect_refused("pipeline --stages 4096 --microbatches 1000000", {"--stages", "more than"});
  expect_refused("pipeline --forward -1", {"--forward"});
  expect_refused("pipeline --json --text", {"--json"});
  expect_refused("pipeline --compare --text", {"--compare", "--text"});
  expect_refused("pipeline --compare --schedule gpipe", {"--compare", "--schedule"});
  expect_refused("pipeline --file x.pipeline --stages 3", {"--file", "--stages"});
  expect_refused("pipeline --stages 200 --svg x.svg", {"--svg", "200 ranks"});
  expect_refused("pipelines", {"did you mean pipeline"});
}

// Forward and backward take equally long, as they are usually drawn.
TEST(PipelineCommand, DrawsTimeline) {
  const Ran ran = run_program(
      "pipeline --schedule gpipe --stages 3 --microbatches 2 --backward-input 0.5 "
      "--backward-weight 0.5");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(
      ran.out.starts_with("gpipe over 3 ranks, 2 micro-batches\n"
                          "all micro-batches forward, then all back\n"
                          "\n"
                          "  rank 0    F0 F1 ·  ·  ·  ·  B1 B0*\n"
                          "  rank 1    ·  F0 F1 ·  ·  B1 B0*·  \n"
                          "  rank 2    ·  ·  F0 F1 B1 B0*·  ·  \n"
                          "\n"
                          "  F Forward  B Backward  * Update  · Idle\n"
                          "\n"
                          "  time         8;"))
      << ran.out;
  EXPECT_NE(ran.out.find("bubble       50.0 % of all ranks' time"), std::string::npos);
  EXPECT_NE(ran.out.find("activations  2 2 2 by rank"), std::string::npos);
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
}

// Several stages per rank, tasks of unequal length, updates that take time: labels do not overlap.
TEST(PipelineCommand, DrawsUnequalTasks) {
  const Ran ran = run_program(
      "pipeline --schedule interleaved --stages 1 --microbatches 1 --forward 2 --update 2");
  EXPECT_NE(ran.out.find("  rank 0    F0a F0b B0b B0a U0a U0b \n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("U Update"), std::string::npos);
}

// Where labels do not fit: one letter per column, never wider than the terminal.
TEST(PipelineCommand, FitsWidth) {
  const Ran ran = run_program("pipeline --schedule zb-v --stages 8 --microbatches 64");
  std::size_t begin = 0;
  int lines = 0;
  while ((begin = ran.out.find("  rank ", begin)) != std::string::npos) {
    const std::string line = ran.out.substr(begin, ran.out.find('\n', begin) - begin);
    EXPECT_LE(report::display_width(line), 100) << line;
    begin += line.size();
    ++lines;
  }
  EXPECT_EQ(lines, 8);
  EXPECT_NE(ran.out.find("small letters are odd micro-batches"), std::string::npos);
}

TEST(PipelineCommand, JsonHasDocumentedFields) {
  const Json json = json_of("pipeline --schedule pipedream --stages 4 --microbatches 12 --json");
  EXPECT_EQ(json["name"], "pipedream");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["stages"], 4);
  EXPECT_EQ(json["copies"], 1);
  EXPECT_EQ(json["microbatches"], 12);
  EXPECT_EQ(json["weights"], "newest");
  EXPECT_EQ(json["placement"], Json::parse("[[0,1,2,3]]"));
  EXPECT_EQ(json["verified"], true);
  EXPECT_NEAR(json["makespan"].get<double>(), 45, 1e-9);
  EXPECT_NEAR(json["bubble"].get<double>(), 0.2, 1e-9);
  EXPECT_NEAR(json["steady_bubble"].get<double>(), 0, 1e-9);
  EXPECT_EQ(json["activations"], Json::parse("[4.0,3.0,2.0,1.0]"));
  EXPECT_EQ(json["versions"], Json::parse("[[4,3,2,1]]"));
  EXPECT_EQ(json["messages"], 72);
  ASSERT_EQ(json["tasks"].size(), 4U);
  EXPECT_EQ(json["tasks"][3][1],
            Json::parse(R"({"work":"backward","stage":3,"microbatch":0,"copy":0,"start":4.0,)"
                        R"("end":6.0,"version":0})"));
}

TEST(PipelineCommand, ComparesAllSchedules) {
  const Json json = json_of(
      "pipeline --compare --stages 4 --microbatches 6 --backward-input 0.5 --backward-weight 0.5 "
      "--json");
  std::map<std::string, double> bubbles;
  for (const Json& schedule : json["schedules"]) {
    bubbles[schedule["name"].get<std::string>()] = schedule["bubble"].get<double>();
  }
  EXPECT_EQ(bubbles.size(), pipeline_schedules().size());
  EXPECT_NEAR(bubbles["naive"], 0.75, 1e-9);
  EXPECT_NEAR(bubbles["gpipe"], 1.0 / 3, 1e-9);
  EXPECT_NEAR(bubbles["1f1b"], 1.0 / 3, 1e-9);
  EXPECT_NEAR(bubbles["interleaved"], 0.2, 1e-9);
  EXPECT_NEAR(bubbles["chimera"], 1.0 / 7, 1e-9);
}

TEST(PipelineCommand, ComparisonExplainsInapplicableSchedules) {
  const Ran ran = run_program("pipeline --compare --stages 3 --microbatches 4");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_NE(ran.out.find("the number of stages of chimera must be a multiple of 2"),
            std::string::npos);
  const Json json = json_of("pipeline --compare --stages 3 --microbatches 4 --json");
  EXPECT_EQ(json["schedules"].back()["name"], "chimera");
  EXPECT_TRUE(json["schedules"].back().contains("unfit"));
}

TEST(PipelineCommand, ReadsItsOwnText) {
  const Ran text = run_program("pipeline --schedule zb-v --stages 3 --microbatches 5 --text");
  write_text(scratch_folder() + "/mine.pipeline", text.out);
  const Ran again = run_program("pipeline --file mine.pipeline --text");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, text.out);
  const Json from_file = json_of("pipeline --file mine.pipeline --json");
  const Json made = json_of("pipeline --schedule zb-v --stages 3 --microbatches 5 --json");
  EXPECT_EQ(from_file["makespan"], made["makespan"]);
  EXPECT_EQ(from_file["tasks"], made["tasks"]);
}

constexpr const char* kCircle =
    "trireme pipeline 1\nname mine\nranks 2\nstages 2\nmicrobatches 2\nweights single\nplace 0 1\n"
    "rank 0: F0.0 B0.0 F0.1 B0.1 U0.1\nrank 1: F1.0 F1.1 B1.0 B1.1 U1.1\nend\n";

// An invalid table is a result: its problems are printed, and the exit code is 1.
TEST(PipelineCommand, ExplainsInvalidTable) {
  write_text(scratch_folder() + "/circle.pipeline", kCircle);
  const Ran ran = run_program("pipeline --file circle.pipeline");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("WRONG"), std::string::npos);
  EXPECT_NE(ran.out.find("rank 0 at B0.0 waits for B1.0 of rank 1"), std::string::npos) << ran.out;
  const Ran json = run_program("pipeline --file circle.pipeline --json");
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(parse_json(json.out, "output")["verified"], false);
  expect_refused("pipeline --file circle.pipeline --svg x.svg", {"circle.pipeline", "circle"});
}

TEST(PipelineCommand, RejectsCorruptFile) {
  write_text(scratch_folder() + "/bad.pipeline", "trireme pipeline 1\nname x\nranks oops\n");
  expect_refused("pipeline --file bad.pipeline", {"bad.pipeline", "line 3", "oops"});
}

TEST(PipelineCommand, WritesTrace) {
  const Ran ran = run_program(
      "pipeline --schedule chimera --stages 4 --microbatches 4 --trace pipe.trace.json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Trace trace = parse_trace(read_text(scratch_folder() + "/pipe.trace.json"));
  EXPECT_EQ(trace.kind, TraceKind::Predicted);
  EXPECT_EQ(trace.tracks.size(), 4U);
  EXPECT_EQ(trace.spans.size(), 2U * 4 * 4 + 2 * 4);
  EXPECT_EQ(problems(trace), std::vector<std::string>{});
  // A message in each direction between neighbors, and the gradients that each copy's updates wait for.
  EXPECT_EQ(trace.flows.size(), 4U * 2 * 3 + 2 * 4 * 2);
}

}  // namespace
}  // namespace trireme
