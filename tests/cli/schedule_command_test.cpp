#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"
#include "cli/program_says.h"
#include "cli/program_under_way.h"
#include "temporary_folder.h"
#include "trireme/collective_cost.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

TEST(ScheduleCommand, RejectsBadInputInOneLine) {
  expect_refused("schedule allreduce --ranks 0", {"--ranks", "0 ranks", "1 to"});
  expect_refused("schedule broadcast --ranks 4 --root 4", {"--root", "root 4", "0 to 3"});
  expect_refused("schedule broadcast --ranks 4 --root -1", {"root -1"});
  expect_refused("schedule allreduce --algorithm rign",
                 {"--algorithm", "rign", "did you mean ring"});
  expect_refused("schedule alltoall --algorithm mst", {"mst does not do alltoall", "pairwise"});
  expect_refused("schedule allreduce --size -5", {"--size", "-5"});
  expect_refused("schedule allreduce --size=-5", {"--size", "negative"});
  expect_refused("schedule allreduce --size lots", {"--size", "64KiB"});
  expect_refused("schedule allreduce --alpha fast", {"--alpha", "1.5us"});
  expect_refused("schedule allreduce --dtype f99", {"--dtype", "f32"});
  expect_refused("schedule allreduce --size 3 --dtype f32", {"--size", "f32"});
  expect_refused("schedule allredue", {"unknown operation 'allredue'; did you mean allreduce?"});
  expect_refused("schedule dance", {"unknown operation 'dance'", "allreduce"});
  expect_refused("schedule", {"operation"});
  expect_refused("schedule allreduce --ranks many", {"--ranks"});
  expect_refused("schedule allreduce --frobnicate", {"--frobnicate"});
  expect_refused("schedule allreduce --algorithm two-level --ranks 6 --per-node 4",
                 {"6 ranks", "nodes of 4"});
  expect_refused("schedule allreduce --cluster dgx-h999", {"dgx-h999"});
  expect_refused("schedule allreduce --ranks 8 --topology mesh:3x3", {"--topology", "mesh"});
  expect_refused("schedule allreduce --json --text", {"--json"});
  expect_refused("schedule allreduce --compare --trace x.json", {"--compare", "--trace"});
  expect_refused("schedule allreduce --switching wormhole", {"--switching", "--topology"});
  expect_refused("schedule allreduce --algorithm chain --segments 0", {"--segments", "1 to"});
  expect_refused("schedule allreduce --algorithm mst --segments 3", {"--segments", "chain"});
  expect_refused("schedule allreduce --algorithm ring --per-node 2", {"--per-node", "two-level"});
  expect_refused("schedule broadcast --algorithm chain --ranks 1000 --segments 1048576",
                 {"1048576 segments"});
  expect_refused("schedule allreduce --size 8000000TiB", {"--size", "1024 TiB"});
  expect_refused("schedule allreduce --beta 1e300s", {"--beta"});
  expect_refused("schedule allreduce --file x.schedule", {"--file", "allreduce"});
  expect_refused("shedule",
                 {"unknown command 'shedule'", "did you mean schedule", "trireme --help"});
  expect_refused("nonsense", {"unknown command 'nonsense'", "cluster"});
}

TEST(ScheduleCommand, RejectsCorruptScheduleFile) {
  write_text(scratch_folder() + "/bad.schedule",
             "trireme schedule 1\noperation gather\nalgorithm x\nranks oops\n");
  expect_refused("schedule --file bad.schedule", {"bad.schedule", "line 4", "oops"});
  write_text(scratch_folder() + "/empty.schedule", "");
  expect_refused("schedule --file empty.schedule", {"empty.schedule"});
}

TEST(ScheduleCommand, JsonHasDocumentedFields) {
  const Json json =
      json_of("schedule broadcast --algorithm mst --ranks 9 --root 1 --size 9216 --json");
  EXPECT_EQ(json["operation"], "broadcast");
  EXPECT_EQ(json["algorithm"], "mst");
  EXPECT_EQ(json["ranks"], 9);
  EXPECT_EQ(json["root"], 1);
  EXPECT_EQ(json["bytes"], 9216);
  EXPECT_EQ(json["rounds"], 4);
  EXPECT_EQ(json["messages"], 8);
  EXPECT_EQ(json["bytes_total"], 8 * 9216);
  EXPECT_NEAR(json["seconds"].get<double>(), 4.0864e-05, 1e-12);
  EXPECT_NEAR(json["lower_bound_seconds"].get<double>(), 4e-6 + 9216e-9, 1e-12);
  EXPECT_EQ(json["steps"].size(), 4U);
  EXPECT_EQ(json["steps"][0][0], Json::parse(R"({"from":1,"to":8,"blocks":[0],"combine":false})"));
  EXPECT_EQ(json["verified"], true);
}

// Replaying only the steps in the JSON gives every rank the sum: the output is complete.
TEST(ScheduleCommand, JsonStepsDescribeWholeAlgorithm) {
  const Json json = json_of("schedule allreduce --algorithm ring --ranks 5 --json");
  std::vector<std::vector<double>> values(5, std::vector<double>(5));
  for (std::size_t r = 0; r < 5; ++r) {
    std::ranges::fill(values[r], std::pow(10.0, static_cast<double>(r)));
  }
  for (const Json& step : json["steps"]) {
    const auto before = values;
    for (const Json& m : step) {
      for (const Json& block : m["blocks"]) {
        double& held = values[m["to"].get<std::size_t>()][block.get<std::size_t>()];
        const double sent = before[m["from"].get<std::size_t>()][block.get<std::size_t>()];
        held = m["combine"].get<bool>() ? held + sent : sent;
      }
    }
  }
  for (const auto& rank : values) {
    EXPECT_EQ(rank, std::vector<double>(5, 11111.0));
  }
}

TEST(ScheduleCommand, EveryOperationRunsWithEveryAlgorithm) {
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      const std::string arguments = "schedule " + std::string(to_text(operation)) +
                                    " --algorithm " + std::string(to_text(algorithm)) +
                                    " --ranks 6 --size 6K";
      EXPECT_EQ(run_program(arguments).exit_code, 0) << arguments;
      const Json json = json_of(arguments + " --json");
      EXPECT_EQ(json["verified"], true) << arguments;
      EXPECT_GE(json["seconds"].get<double>(), 0) << arguments;
    }
  }
}

TEST(ScheduleCommand, TextRoundTrips) {
  const Ran text = run_program("schedule allgather --algorithm bruck --ranks 7 --text");
  EXPECT_EQ(parse_schedule(text.out), build(Operation::Allgather, Algorithm::Bruck, {.ranks = 7}));
  write_text(scratch_folder() + "/mine.schedule", text.out);
  EXPECT_EQ(run_program("schedule --file mine.schedule --text").out, text.out);
  EXPECT_EQ(json_of("schedule --file mine.schedule --json")["verified"], true);
}

TEST(ScheduleCommand, ExitsWith1ForInvalidScheduleFile) {
  std::string text = run_program("schedule broadcast --algorithm mst --ranks 3 --text").out;
  const std::size_t last = text.rfind("copy");
  text.erase(last, text.find('\n', last) + 1 - last);
  write_text(scratch_folder() + "/wrong.schedule", text);
  const Ran ran = run_program("schedule --file wrong.schedule");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("WRONG"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("0 of 1 contributions"), std::string::npos) << ran.out;
}

TEST(ScheduleCommand, PrintsPlainTableIntoPipe) {
  const Ran ran = run_program("schedule allreduce --algorithm ring --ranks 3 --size 3K");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  EXPECT_NE(ran.out.find("  step  rank 0  rank 1  rank 2"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("     1  0+→1    1+→2    2+→0"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("lower bound"), std::string::npos);
  EXPECT_NE(ran.out.find("2(p-1)α"), std::string::npos);
}

TEST(ScheduleCommand, ChoosesAndExplains) {
  const Ran ran = run_program("schedule allreduce --ranks 8 --size 8");
  EXPECT_NE(ran.out.find("recursive-doubling is predicted fastest"), std::string::npos) << ran.out;
  const Json two_level = json_of("schedule allreduce --cluster dgx-h100:4 --size 256MiB --json");
  EXPECT_EQ(two_level["algorithm"], "two-level");
  EXPECT_EQ(two_level["ranks"], 32);
}

TEST(ScheduleCommand, ComparesSizesWithExactCrossovers) {
  const Json json = json_of("schedule allreduce --compare --ranks 8 --json");
  EXPECT_GT(json["rows"].size(), 5U);
  ASSERT_GT(json["crossovers"].size(), 0U);
  Selector selector(CostModel::uniform({1e-6}, {1e-9}, {1e-10}));
  for (const Json& flip : json["crossovers"]) {
    const std::int64_t bytes = flip["bytes"].get<std::int64_t>();
    const auto best = [&](std::int64_t n) {
      return to_text(selector.rank({.operation = Operation::Allreduce, .ranks = 8, .bytes = {n}})
                         .front()
                         .algorithm);
    };
    EXPECT_EQ(best(bytes - 1), flip["from"].get<std::string>());
    EXPECT_EQ(best(bytes), flip["to"].get<std::string>());
  }
  EXPECT_NE(run_program("schedule allreduce --compare --ranks 8").out.find("instead of"),
            std::string::npos);
}

TEST(ScheduleCommand, ShowsNetworkLinkByLink) {
  const Json worm =
      json_of("schedule allgather --algorithm ring --ranks 9 --size 9K --topology linear --json")
          ["network"];
  EXPECT_EQ(worm["utilization"], 1.0);
  for (const Json& step : worm["steps"]) {
    EXPECT_EQ(step["most_messages_on_a_link"], 1);
  }
  const Json stored = json_of(
      "schedule allgather --algorithm ring --ranks 9 --size 9K --topology linear --switching "
      "store-and-forward --json")["network"];
  EXPECT_NEAR(stored["seconds"].get<double>() / worm["seconds"].get<double>(), 8, 1e-9);
}

TEST(ScheduleCommand, WritesPicturesAndTraces) {
  const Ran ran = run_program(
      "schedule broadcast --algorithm mst --ranks 9 --root 1 --svg tree.svg --trace tree.json "
      "--json");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(parse_json(ran.out, "output")["ranks"],
            9);  // messages about the files go to standard error
  EXPECT_EQ(read_text(scratch_folder() + "/tree.svg").substr(0, 5), "<?xml");
  const Trace trace = parse_trace(read_text(scratch_folder() + "/tree.json"));
  EXPECT_EQ(trace.kind, TraceKind::Predicted);
  EXPECT_EQ(trace.spans.size(), 16U);
  EXPECT_EQ(problems(trace), std::vector<std::string>{});
  EXPECT_EQ(run_program("schedule allreduce --compare --svg plot.svg").exit_code, 0);
  EXPECT_EQ(read_text(scratch_folder() + "/plot.svg").substr(0, 5), "<?xml");
}

TEST(ScheduleCommand, UsesLinksAndIgnoresDevices) {
  write_text(scratch_folder() + "/real.svg", "old");
  std::filesystem::create_symlink("real.svg", scratch_folder() + "/link.svg");
  EXPECT_EQ(run_program("schedule barrier --ranks 4 --svg link.svg").exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(scratch_folder() + "/link.svg"));
  EXPECT_NE(read_text(scratch_folder() + "/real.svg").find("<svg"), std::string::npos);
  EXPECT_EQ(run_program("schedule barrier --ranks 4 --svg /dev/null").exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Program, FailsIfOutputCannotBeWritten) {
  for (const char* arguments :
       {"tour", "schedule allreduce --json", "schedule allreduce", "cluster"}) {
    const Ran ran = run_program(std::string(arguments) + " >/dev/full");
    EXPECT_EQ(ran.exit_code, 1) << arguments;
    EXPECT_NE(ran.err.find("standard output"), std::string::npos) << arguments << ran.err;
  }
}

TEST(ScheduleCommand, AbbreviatesLargeSchedules) {
  const Ran ran = run_program("schedule allreduce --algorithm ring --ranks 1024");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_LT(ran.out.size(), 10000U);
  EXPECT_NE(ran.out.find("more steps"), std::string::npos);
}

TEST(Program, PrintsHelpVersionAndTour) {
  const Ran version = run_program("--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.substr(0, 8), "trireme ");
  for (const char* arguments : {"--help", "schedule --help", "cluster --help", "tour --help"}) {
    const Ran help = run_program(arguments);
    EXPECT_EQ(help.exit_code, 0) << arguments;
    EXPECT_NE(help.out.find("--help"), std::string::npos) << arguments;
    EXPECT_EQ(help.err, "");
  }
  EXPECT_NE(run_program("schedule --help").out.find("Examples:"), std::string::npos);
  EXPECT_NE(run_program("--help").out.find("Exit codes: 0 success, 1 failure, 2 usage"),
            std::string::npos);
  const Ran tour = run_program("tour");
  EXPECT_EQ(tour.exit_code, 0);
  EXPECT_NE(tour.out.find("A [22 51 | 15 36 | 57 12]"), std::string::npos) << tour.out;
  EXPECT_EQ(json_of("tour --json")["ring_allreduce_of_three"].size(), 5U);
}

TEST(ScheduleCommand, DrawsClusterOfReadme) {
  const std::string svg = scratch_folder() + "/cluster.svg";
  const Ran ran = run_program("schedule allreduce --cluster dgx-h100:4 --size 256MiB --svg " + svg);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(read_text(svg).find("</svg>"), std::string::npos);
}

/// A request that takes minutes says so at once.
TEST(ScheduleCommand, ReportsLongComputations) {
  const TemporaryFolder folder;
  const Started started("schedule allreduce -n 100000", folder.path());
  EXPECT_TRUE(becomes_true(
      [&] {
        return read_text(folder / "err").find("100000 ranks: this may take minutes") !=
               std::string::npos;
      },
      kAMinute));
}

}  // namespace
}  // namespace trireme
