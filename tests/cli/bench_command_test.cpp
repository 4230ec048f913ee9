#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/program.h"
#include "trireme/bench_lists.h"
#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/tuning.h"

namespace trireme {
namespace {

/// Few repeats keep the test short.
Ran run_bench(const std::string& arguments) {
  return run_program("bench --repeats 3 " + arguments);
}

std::vector<Json> rows_of(const Ran& ran) {
  std::vector<Json> rows;
  for (const std::string_view line : split(ran.out, '\n')) {
    if (!line.empty()) {
      rows.push_back(parse_json(line, "row"));
    }
  }
  return rows;
}

class BenchCommand : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", (scratch_folder() + "/no-cache").c_str(), 1);  // NOLINT
  }
};

TEST_F(BenchCommand, MeasuresEveryOperationOnEveryTransport) {
  std::vector<std::string> transports{"shm", "in-process", "tcp"};
  if (is_built(TransportKind::Ucx)) {
    transports.emplace_back("ucx");
  }
  for (const std::string& transport : transports) {
    const Ran ran = run_bench("all -n 3 --sizes 8,10008 --json --transport " + transport);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    std::set<std::string> operations;
    for (const Json& row : rows_of(ran)) {
      EXPECT_TRUE(row.at("correct").get<bool>()) << row;
      EXPECT_EQ(row.at("transport"), transport);
      operations.insert(row.at("operation").get<std::string>());
    }
    EXPECT_EQ(operations.size(), all_operations().size());
    EXPECT_EQ(rows_of(ran).size(), 2 * (operations.size() - 1) + 1);  // a barrier has no size
  }
}

TEST_F(BenchCommand, MeasuresEncryptedConnections) {
  const Ran ran = run_bench("allreduce -n 2 --sizes 8,1M --transport tcp --encrypt --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  for (const Json& row : rows_of(ran)) {
    EXPECT_TRUE(row.at("correct").get<bool>()) << row;
    EXPECT_TRUE(row.at("encrypted").get<bool>()) << row;
  }
}

TEST_F(BenchCommand, WritesRowFields) {
  const Ran ran = run_bench("allreduce -n 2 --sizes 64K --dtype i32 --buffers shared --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.err.find("run 'trireme probe' first"), std::string::npos) << ran.err;
  const std::vector<Json> rows = rows_of(ran);
  ASSERT_EQ(rows.size(), 1U);
  const Json& row = rows.front();
  EXPECT_EQ(row.at("operation"), "allreduce");
  EXPECT_EQ(row.at("ranks"), 2);
  EXPECT_EQ(row.at("bytes"), 65536);
  EXPECT_EQ(row.at("count"), 16384);
  EXPECT_EQ(row.at("dtype"), "i32");
  EXPECT_EQ(row.at("transport"), "shm");
  EXPECT_FALSE(row.at("encrypted").get<bool>());
  EXPECT_EQ(row.at("buffers"), "shared");
  EXPECT_EQ(row.at("algorithm"), "automatic");
  EXPECT_EQ(row.at("chosen"), "direct");
  EXPECT_EQ(row.at("calls"), 3);
  EXPECT_TRUE(row.at("predicted_microseconds").is_null());
  EXPECT_TRUE(row.at("floor_share").is_null());
  EXPECT_TRUE(row.at("correct").get<bool>());
  EXPECT_TRUE(row.at("best").get<bool>());
  const double microseconds = row.at("microseconds").get<double>();
  EXPECT_GT(microseconds, 0);
  EXPECT_LE(row.at("min_microseconds").get<double>(), microseconds);
  EXPECT_GE(row.at("spread").get<double>(), 0);
  EXPECT_NEAR(row.at("algbw_gbps").get<double>(), 65536 / microseconds * 1e-3, 1e-6);
  EXPECT_NEAR(row.at("busbw_gbps").get<double>(), row.at("algbw_gbps").get<double>(), 1e-9);
}

TEST_F(BenchCommand, ComparesAllAlgorithmsAndMarksBest) {
  const Ran ran = run_bench("allreduce,broadcast -n 3 --sizes 1K,12K --algorithm all --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  int best = 0;
  std::set<std::string> algorithms;
  for (const Json& row : rows_of(ran)) {
    EXPECT_TRUE(row.at("correct").get<bool>()) << row;
    best += row.at("best").get<bool>() ? 1 : 0;
    algorithms.insert(row.at("algorithm").get<std::string>());
  }
  EXPECT_EQ(best, 4);
  for (const char* name : {"automatic", "direct", "ring", "mst", "recursive-doubling"}) {
    EXPECT_TRUE(algorithms.contains(name)) << name;
  }
}

TEST_F(BenchCommand, ChecksEveryDType) {
  for (const DType dtype : kDTypes) {
    const Ran ran = run_bench("allreduce,alltoall -n 4 --sizes 2K --algorithm all --json --dtype " +
                              std::string(to_text(dtype)));
    ASSERT_EQ(ran.exit_code, 0) << to_text(dtype) << ran.err << ran.out;
  }
}

TEST_F(BenchCommand, GivesEachRankOneElement) {
  const std::vector<Json> rows = rows_of(run_bench("allgather,allreduce -n 4 --sizes 8 --json"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("bytes"), 8);
  EXPECT_EQ(rows[0].at("count"), 4);
  EXPECT_EQ(rows[1].at("count"), 2);
}

TEST_F(BenchCommand, PrintsReadableTable) {
  const Ran ran = run_bench("scatter -n 2 --sizes 64K --algorithm all");
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* text :
       {"scatter, 2 ranks by shm, f32, private buffers", "time us", "busbw", "predicted", "floor%",
        "automatic (direct)", "\n* ", "yes", "the automatic choice: within 10 %"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
}

TEST_F(BenchCommand, WritesChartsAndTuning) {
  const Ran ran = run_bench(
      "allreduce,barrier -n 2 --sizes 1K..16K --algorithm direct,ring --svg times.svg --tune "
      "tune.json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const std::string picture = read_text(scratch_folder() + "/times.svg");
  EXPECT_NE(picture.find("data-name=\"ring\""), std::string::npos);
  const Tuning tuning = parse_tuning(read_text(scratch_folder() + "/tune.json"));
  ASSERT_EQ(tuning.rows.size(), 4U);  // three sizes, plus the barrier
  EXPECT_FALSE(tuning.date.empty());
  std::set<std::int64_t> sizes;
  for (const TuningRow& row : tuning.rows) {
    EXPECT_EQ(row.ranks, 2);
    EXPECT_EQ(row.transport, TransportKind::SharedMemory);
    EXPECT_EQ(row.candidates.size(), row.operation == Operation::Barrier ? 1U : 2U);
    sizes.insert(row.measured.count);
  }
  EXPECT_EQ(sizes, (std::set<std::int64_t>{0, 1024, 4096, 16384}));
}

TEST_F(BenchCommand, AppliesTuningFile) {
  Tuning tuning{.rows = {{.operation = Operation::Allreduce,
                          .ranks = 2,
                          .transport = TransportKind::SharedMemory,
                          .from = {1000},
                          .to = {2000},
                          .method = Method::scheduled(Algorithm::Ring)}}};
  write_text(scratch_folder() + "/mine.json", to_text(tuning));
  const Ran ran = run_bench("allreduce -n 2 --sizes 512,1K --tuning mine.json --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const std::vector<Json> rows = rows_of(ran);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("chosen"), "direct");
  EXPECT_EQ(rows[1].at("chosen"), "ring");
}

TEST_F(BenchCommand, RejectsInvalidTuningFile) {
  EXPECT_EQ(run_bench("allreduce --tuning gone.json").err,
            "trireme: --tuning: cannot read 'gone.json': No such file or directory\n");
  write_text(scratch_folder() + "/bad.json", R"({"format": "trireme tuning 3", "choises": []})");
  const Ran ran = run_bench("allreduce --tuning bad.json");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
  EXPECT_NE(ran.err.find("--tuning: bad.json: tuning: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("choises"), std::string::npos) << ran.err;
}

TEST_F(BenchCommand, RejectsBadInputInOneLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"allreduze", "unknown operation 'allreduze'"},
      {"allreduce,", "unknown operation ''"},
      {"allreduce --sizes 10", "--sizes: 10 bytes are not a multiple of the f32 element size"},
      {"allreduce --sizes 4M..1K", "--sizes: invalid range of sizes '4M..1K'"},
      {"allreduce --sizes 1K..4M:1", "--sizes: invalid factor '1'"},
      {"allreduce --sizes 0", "--sizes: sizes are 1 byte to"},
      {"allreduce --sizes 1x", "--sizes: "},
      {"broadcast --algorithm ring", "--algorithm: ring does not do broadcast"},
      {"broadcast --algorithm rong", "--algorithm: "},
      {"allreduce --algorithm direct --transport tcp", "--algorithm: direct needs ranks"},
      {"allreduce --encrypt", "--encrypt: memory of one host is not encrypted"},
      {"allreduce --transport udp", "--transport: unknown transport 'udp'"},
      {"allreduce --buffers mine", "--buffers: unknown buffer kind 'mine'"},
      {"allreduce --buffers shared --transport tcp", "--buffers: "},
      {"allreduce --dtype f31", "--dtype: "},
      {"allreduce -n 0", "--ranks"},
      {"allreduce -n 65", "--ranks"},
      {"allreduce --cluster laptop", "--cluster: cluster laptop has no measured host costs"},
      {"", "missing argument operations"},
  };
  for (const auto& [arguments, text] : cases) {
    const Ran ran = run_program("bench " + arguments);
    EXPECT_EQ(ran.exit_code, 2) << arguments;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(text), std::string::npos) << ran.err;
  }
}

TEST(BenchPlan, ParsesListsAndRanges) {
  const auto sizes = [](const std::string& text) {
    std::vector<std::int64_t> counts;
    for (const Bytes bytes : measure::parse_size_list(text)) {
      counts.push_back(bytes.count);
    }
    return counts;
  };
  EXPECT_EQ(sizes("8,1K"), (std::vector<std::int64_t>{8, 1024}));
  EXPECT_EQ(sizes("8..128"), (std::vector<std::int64_t>{8, 32, 128}));
  EXPECT_EQ(sizes("8..64:2"), (std::vector<std::int64_t>{8, 16, 32, 64}));
  EXPECT_EQ(sizes("1K, 8..128,32"), (std::vector<std::int64_t>{8, 32, 128, 1024}));
}

}  // namespace
}  // namespace trireme
