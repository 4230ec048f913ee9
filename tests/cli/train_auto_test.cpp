// `trireme train` on a measured host: predictions next to measurements, and plans chosen by prediction.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/training_runs.h"
#include "command_line/host_file.h"
#include "predict/measured_host.h"
#include "trireme/cluster.h"
#include "trireme/cores.h"
#include "trireme/host_probe.h"

namespace trireme {
namespace {

class TrainAuto : public TrainRanks {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", (scratch_folder() + "/auto-cache").c_str(), 1);  // NOLINT
    std::filesystem::create_directories(std::filesystem::path(cli::host_file_path()).parent_path());
    const int cores = usable_cores();
    Cluster host{.name = "host",
                 .devices_per_node = 1,
                 .device = {.name = "core"},
                 .host = predict::free_communication(cores)};
    write_text(cli::host_file_path(), to_text(host));
  }
  void TearDown() override { std::filesystem::remove(cli::host_file_path()); }

  static Json last_line(const std::string& lines) {
    return Json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
  }
  std::string small() { return kSmall + "--steps 2 --run-folder " + new_run() + " "; }
};

TEST_F(TrainAuto, LossesMatchSingleDevice) {
  const std::vector<double> one = losses("");
  for (const char* options : {"-n 2", "-n 4 --mesh auto", "--mesh auto --zero 0"}) {
    expect_same(one, losses(options), options);
  }
}

TEST_F(TrainAuto, ReportsChosenPlan) {
  const Ran ran = run_program(small() + "-n 2");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* text :
       {"plan     pipe=2, 2 micro-batches, predicted ", "; next ", "\n         fastest of ",
        "plans simulated in", "\npredicted ", "2 ranks: pipe=2, 2 micro-batches by 1f1b",
        "  median step ", "; predicted "}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
}

TEST_F(TrainAuto, KeepsExplicitOptions) {
  const Ran ran = run_program(small() + "--json -n 2 --mesh auto --zero 3");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(last_line(ran.out).at("ranks"), "2 ranks: data=2, ZeRO 3");
}

TEST_F(TrainAuto, SummaryIncludesPrediction) {
  for (const char* options : {"", "--mesh pipe=2 --microbatches 2"}) {
    const Ran ran = run_program(small() + "--json " + options);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const Json summary = last_line(ran.out);
    const double predicted = summary.at("predicted_step_seconds").get<double>();
    const double measured = summary.at("step_seconds").get<double>();
    EXPECT_GT(predicted, 0);
    EXPECT_GT(measured, 0);
    EXPECT_GT(summary.at("predicted_mfu"), 0);
    EXPECT_NEAR(summary.at("prediction_error").get<double>(), predicted / measured - 1, 1e-9);
  }
}

TEST_F(TrainAuto, SummaryWithoutProbeSaysHowToRunOne) {
  std::filesystem::remove(cli::host_file_path());
  const Ran json = run_program(small() + "--json");
  EXPECT_TRUE(last_line(json.out).at("predicted_step_seconds").is_null()) << json.out;
  EXPECT_EQ(json.err, "");
  const Ran text = run_program(small());
  EXPECT_NE(text.out.find("; run 'trireme probe' once to get a prediction"), std::string::npos)
      << text.out;
}

TEST_F(TrainAuto, MeasuresMachineWhenUnprobed) {
  std::filesystem::remove(cli::host_file_path());
  const Ran alone = run_program(small() + "-n 2");  // which does not choose then
  EXPECT_NE(alone.out.find("2 ranks: data=2"), std::string::npos) << alone.out;
  const Ran ran = run_program(small() + "-n 2 --mesh auto");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("plan     measuring this machine"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("; predicted "), std::string::npos) << ran.out;
}

/// Measuring takes seconds, and nothing has begun by then.
TEST_F(TrainAuto, StopSignalInterruptsMeasurement) {
  std::filesystem::remove(cli::host_file_path());
  const std::string run = new_run();
  Started started(kSmall + "-n 2 --mesh auto --run-folder " + run, folder_.path());
  ASSERT_TRUE(becomes_true(
      [&] { return read_text(folder_ / "out").find("measuring") != std::string::npos; }, kAMinute));
  kill(started.process(), SIGTERM);
  const Ran ran = started.wait(kAFewSeconds);
  EXPECT_EQ(ran.exit_code, 143) << ran.err;
  EXPECT_EQ(ran.err, "\ntrireme: stopping: the run has not begun, nothing to save\n");
  EXPECT_FALSE(std::filesystem::exists(run));
}

TEST_F(TrainAuto, RejectsBadInputInOneLine) {
  expect_refused("-n 2 --mesh auto --sync local=2", "give the axes, such as --mesh data=4");
  expect_refused("-n 0 --mesh auto", "-n is 0; it must be 1 or more");
  expect_refused("-n 2 --mesh auto --microbatches 64", "no plan suits this model and batch");
  std::filesystem::remove(cli::host_file_path());
  const Ran ran = run_program("simulate --cluster this");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("this host has not been measured; run 'trireme probe' first"),
            std::string::npos)
      << ran.err;
}

}  // namespace
}  // namespace trireme
