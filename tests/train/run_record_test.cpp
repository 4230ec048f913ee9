// Reading the folder of a run, also one that is incomplete or damaged.
#include "trireme/run_record.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "trireme/train_settings.h"

namespace trireme {
namespace {

RunFacts some_facts() {
  RunFacts facts;
  facts.model = "gpt \"mini\"";
  facts.weights = "a file";
  facts.data = "book.txt";
  facts.device = "cpu";
  facts.parameters = 123'456'789'012;
  facts.vocabulary = 256;
  facts.first_step = 7;
  facts.steps = 100;
  facts.units_per_step = 2048;
  facts.model_flops = 1.0 / 3;
  facts.hardware_flops = 2.0 / 3;
  facts.peak_flops = 1e12;
  facts.measured_flops = 9e11;
  facts.memory = {1 << 30};
  facts.memory_parts = {{"activation", {1000}}, {"gaps", {3}}};
  facts.ranks = "4 ranks: data=4";
  facts.gradient_traffic = GradientTraffic{.sent = 10, .uncompressed = 40};
  facts.bounds =
      LossBounds{.floor = 1.2, .uninformed = 3.3, .floor_is = "entropy", .uninformed_is = "mean"};
  facts.predicted = StepPrediction{.step = {0.125}, .compute = 0.5, .exposed = 0.25, .idle = 0.1};
  facts.not_predicted = "no";
  facts.notes = {"one", "two"};
  return facts;
}

constexpr const char* kStep =
    R"({"step":1,"loss":4.5,"gradient_norm":1.5,"learning_rate":0.001,"seconds":0.5,)"
    R"("tokens_per_second":100.5,"mfu":0.25,"hfu":0.5,"peak_memory_bytes":10})";

TEST(RunRecord, FactsRoundTrip) {
  const RecordedFacts recorded{.facts = some_facts(), .environment = find_environment()};
  const std::string text = to_text(recorded);
  EXPECT_EQ(to_text(parse_facts(text, "facts.json")), text);
  EXPECT_EQ(parse_facts(text, "facts.json").facts.model_flops, 1.0 / 3);
  EXPECT_GT(recorded.environment.cores, 0);
  EXPECT_TRUE(recorded.environment.started.ends_with(" UTC"));
  const std::string without_options =
      to_text(RecordedFacts{.facts = RunFacts(), .environment = {}});
  EXPECT_EQ(to_text(parse_facts(without_options, "facts.json")), without_options);
  expect_error(ErrorKind::Input, "facts.json", [] { (void)parse_facts("{}", "facts.json"); });
}

TEST(RunRecord, RequiresRunFolder) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::Usage, "is not the folder of a run",
               [&] { (void)read_run(folder.path()); });
}

/// As in the first moments of a run: the last line is only half written.
TEST(RunRecord, ReadsRunWithoutSteps) {
  const TemporaryFolder folder;
  (void)folder.file("settings.json", to_text(TrainSettings()));
  EXPECT_TRUE(read_run(folder.path()).steps.empty());
  (void)folder.file("metrics.jsonl", std::string(kStep) + "\n" + R"({"step":2,"lo)");
  const RunRecord run = read_run(folder.path());
  EXPECT_EQ(run.problems, std::vector<std::string>());
  ASSERT_EQ(run.steps.size(), 1U);
  EXPECT_EQ(run.steps[0].report.step, 1);
  EXPECT_EQ(run.steps[0].report.loss, 4.5);
  EXPECT_EQ(run.steps[0].units_per_second, 100.5);
  EXPECT_EQ(run.steps[0].hfu, 0.5);
  EXPECT_EQ(run.unit, "tokens");
  EXPECT_FALSE(run.steps[0].report.validation);
  EXPECT_FALSE(run.facts || run.trace || run.summary);
  EXPECT_EQ(run.traced_step(), nullptr);
}

TEST(RunRecord, NamesUnreadableFiles) {
  const TemporaryFolder folder;
  (void)folder.file("settings.json", to_text(TrainSettings()));
  (void)folder.file("metrics.jsonl", std::string(kStep) + "\nnonsense\n" + kStep + "\n");
  (void)folder.file("trace.json", "{");
  (void)folder.file("facts.json", "[]");
  (void)folder.file("summary.json", R"({"step":3})");
  const RunRecord run = read_run(folder.path());
  EXPECT_EQ(run.steps.size(), 1U);
  ASSERT_EQ(run.problems.size(), 4U);
  EXPECT_TRUE(run.problems[0].starts_with("metrics.jsonl: ")) << run.problems[0];
  EXPECT_TRUE(run.problems[1].starts_with("facts.json: ")) << run.problems[1];
  EXPECT_TRUE(run.problems[2].starts_with("summary.json: ")) << run.problems[2];
  EXPECT_TRUE(run.problems[3].starts_with("trace.json: ")) << run.problems[3];
}

}  // namespace
}  // namespace trireme
