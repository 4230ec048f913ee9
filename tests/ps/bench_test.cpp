// The benchmark: what it measures is there and fits together; how fast it is, tests do not know.
#include <gtest/gtest.h>

#include "base/json.h"
#include "expect_error.h"
#include "ps/run_program.h"
#include "trireme/error.h"
#include "trireme/ps_bench.h"

namespace trireme::ps {
namespace {

TEST(PsBench, MeasuresEveryContenderSequentiallyAndPipelined) {
  const std::vector<PsBenchRow> rows =
      run_ps_bench({.sizes = {{4}, {4096}}, .depth = 4, .time = {0.01}, .slice = {0.001}});
  ASSERT_EQ(rows.size(), 4U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PsBenchRow& row = rows[i];
    EXPECT_EQ(row.size.count, i < 2 ? 4 : 4096);
    EXPECT_EQ(row.depth, i % 2 == 0 ? 1U : 4U);
    for (const double rate :
         {row.floor_per_second, row.echo_per_second, row.stream_bytes_per_second, row.per_second,
          row.push_per_second, row.pull_per_second, row.relay_per_second, row.chain_relay_share,
          row.shared_floor_per_second, row.shared_per_second, row.memcpy_bytes_per_second}) {
      EXPECT_GT(rate, 0);
    }
    EXPECT_DOUBLE_EQ(row.floor_share, row.per_second / row.floor_per_second);
    EXPECT_DOUBLE_EQ(row.shared_ratio, row.shared_per_second / row.per_second);
    EXPECT_FALSE(row.redis.has_value());
    ASSERT_EQ(row.latency.has_value(), row.depth == 1) << "latencies of single operations only";
    if (row.latency) {
      EXPECT_GT(row.latency->p50.count, 0);
      EXPECT_LE(row.latency->p50.count, row.latency->p99.count);
      EXPECT_GT(row.latency->echo_p50.count, 0);
    }
  }
}

TEST(PsBench, RejectsUnsupportedOptions) {
  expect_error(ErrorKind::Usage, "the measuring time must be longer than 0 s",
               [] { (void)run_ps_bench({.sizes = {{4}}, .time = {0}}); });
  expect_error(ErrorKind::Usage, "multiples of 4 B",
               [] { (void)run_ps_bench({.sizes = {{6}}, .time = {0.01}}); });
  expect_error(ErrorKind::Usage, "the depth must be 1 to 1024",
               [] { (void)run_ps_bench({.sizes = {{4}}, .depth = 0}); });
}

TEST(PsBench, PrintsTextAndJson) {
  const Json json = Json::parse(run_program("ps bench --sizes 4 --time 10ms --depth 2 --json"));
  ASSERT_EQ(json.size(), 2U);
  for (const char* key :
       {"bytes", "depth", "floor_per_second", "echo_per_second", "stream_bytes_per_second",
        "per_second", "push_per_second", "pull_per_second", "floor_share", "chain_share",
        "relay_per_second", "chain_relay_share", "shared_ratio", "cpu_seconds_per_gb",
        "memcpy_bytes_per_second"}) {
    EXPECT_GT(json[0].at(key).get<double>(), 0) << key;
  }
  EXPECT_GT(json[0].at("p50_us").get<double>(), 0);
  EXPECT_GE(json[0].at("p99_us"), json[0].at("p50_us"));
  EXPECT_FALSE(json[1].contains("p50_us"));
  const std::string text =
      run_program("ps bench --sizes 4 --time 10ms --depth 2 --redis /nowhere/redis-server");
  EXPECT_NE(text.find("/nowhere/redis-server does not exist: skipping Redis"), std::string::npos);
  EXPECT_NE(text.find("push / SET"), std::string::npos) << text;
}

TEST(PsChaos, RejectsNumbersOutOfRange) {
  EXPECT_NE(run_program("ps chaos --kills -1", 2).find("--kills: invalid value '-1'"),
            std::string::npos);
  EXPECT_NE(run_program("ps chaos --lease 0s", 2).find("a lease of 0 s is out of range"),
            std::string::npos);
}

TEST(PsServe, NamesEverythingThatIsMissing) {
  const std::string text = run_program("ps serve", 2);
  EXPECT_NE(text.find("--coordinator HOST:PORT"), std::string::npos) << text;
  EXPECT_NE(text.find("--number N"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::ps
