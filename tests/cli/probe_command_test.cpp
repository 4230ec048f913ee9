#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"
#include "command_line/host_file.h"
#include "trireme/cluster.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

class ProbeCommand : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", (scratch_folder() + "/cache").c_str(), 1);  // NOLINT
  }
};

TEST_F(ProbeCommand, CachesResultsForOtherCommands) {
  const Ran probe = run_program("probe --quick -n 2 --json");
  ASSERT_EQ(probe.exit_code, 0) << probe.err;
  const std::string path = cli::host_file_path();
  EXPECT_TRUE(probe.err.ends_with("trireme: wrote " + path + "\n"))
      << probe.err;  // a slow one says that it computes
  EXPECT_TRUE(path.starts_with(scratch_folder() + "/cache/trireme/")) << path;

  const Cluster cluster = parse_cluster(read_text(path));
  ASSERT_TRUE(cluster.host.has_value());
  EXPECT_EQ(cluster.host->cores, 2);
  EXPECT_EQ(cluster.host->messages.size(), is_built(TransportKind::Ucx) ? 4U : 3U);
  EXPECT_EQ(cluster.host->combining.size(), 8U);
  EXPECT_EQ(cluster.links.size(), 1U);
  ASSERT_TRUE(cluster.host->cached.has_value());
  EXPECT_GT(cluster.host->cached->write.count + cluster.host->cached->read.count, 0);
  for (const MessageCost& cost : cluster.host->messages) {
    EXPECT_GE(cost.beta.count, 0) << cost.transport;
    ASSERT_GT(cost.points.size(), 4U) << cost.transport;
    EXPECT_GT(cost.points.back().exchange.count, 0) << cost.transport;
  }

  ASSERT_TRUE(cluster.host->compute.has_value());
  EXPECT_EQ(cluster.host->compute->settings.size(), 3U);
  for (const ComputeSetting& setting : cluster.host->compute->settings) {
    for (const char* kernel : {"einsum nn", "einsum nt", "einsum tn", "attention", "*"}) {
      const auto cost = std::ranges::find(setting.kernels, kernel, &KernelCost::kernel);
      ASSERT_NE(cost, setting.kernels.end()) << kernel;
      EXPECT_GT(std::ranges::max(cost->terms()), 0) << kernel;
      EXPECT_GT(cost->samples, 2) << kernel;
    }
  }
  EXPECT_GT(cluster.device.peak("f32").value_or(FlopRate{}).count, 1e8);

  Json printed = parse_json(probe.out, "output");
  for (const Json& interval : printed.at("intervals")) {
    EXPECT_LE(interval.at("low"), interval.at("value")) << interval;
    EXPECT_LE(interval.at("value"), interval.at("high")) << interval;
  }
  printed.erase("intervals");
  EXPECT_EQ(parse_cluster(printed.dump()), cluster);

  EXPECT_EQ(run_program("cluster " + path).exit_code, 0);
  const Ran plan = run_program("plan --cluster this --model gpt-nano --batch 16 --json");
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const Json planned = parse_json(plan.out, "output");
  EXPECT_EQ(planned.at("dtype"), "f32");
  EXPECT_EQ(planned.at("efficiency_source"), "measured by trireme probe");
  const Ran simulated = run_program("simulate --cluster this --model gpt-nano -n 4 --json");
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  EXPECT_GT(parse_json(simulated.out, "output").at("step_seconds").get<double>(), 0);
  EXPECT_EQ(simulated.out, run_program("simulate --cluster this --model gpt-nano -n 4 --json").out);
  const Ran bench = run_program("bench allreduce,allgather -n 2 --sizes 64K --repeats 3 --json");
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_EQ(bench.err, "");
  const Json row = parse_json(bench.out.substr(0, bench.out.find('\n')), "row");
  EXPECT_GT(row.at("predicted_microseconds").get<double>(), 0);
  EXPECT_GT(row.at("floor_share").get<double>(), 0);
}

TEST_F(ProbeCommand, PrintsReadableTable) {
  const Ran probe = run_program("probe --quick -n 1 --output mine.cluster.json");
  ASSERT_EQ(probe.exit_code, 0) << probe.err;
  for (const char* text : {"95 % confidence intervals", "messages between two ranks", "shm",
                           "in-process", "tcp", "waiting for all ranks", " 8 ranks", "copying",
                           "gamma", "bf16", "kernels", "einsum nn", "GFLOP/s"}) {
    EXPECT_NE(probe.out.find(text), std::string::npos) << text << "\n" << probe.out;
  }
  EXPECT_TRUE(parse_cluster(read_text(scratch_folder() + "/mine.cluster.json")).host.has_value());
}

TEST_F(ProbeCommand, RejectsBadInputInOneLine) {
  for (const auto& [arguments, exit_code, text] :
       {std::tuple{"probe -n 0", 2, "--ranks"}, std::tuple{"probe --quik", 2, "--quik"},
        std::tuple{"bench barrier --cluster gone.json", 2, "--cluster: cannot read 'gone.json'"}}) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.exit_code, exit_code) << arguments;
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(text), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace trireme
