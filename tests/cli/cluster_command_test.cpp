#include <algorithm>

#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"
#include "trireme/cluster.h"

namespace trireme {
namespace {

/// Expects no standard output, and one line on standard error that contains `text`.
void expect_failed(const std::string& arguments, int exit_code, const std::string& text) {
  const Ran ran = run_program(arguments);
  EXPECT_EQ(ran.exit_code, exit_code) << arguments;
  EXPECT_EQ(ran.out, "") << arguments;
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
  EXPECT_NE(ran.err.find(text), std::string::npos) << ran.err;
}

TEST(ClusterCommand, ListsEveryPreset) {
  const Ran ran = run_program("cluster");
  EXPECT_EQ(ran.exit_code, 0);
  for (const std::vector<std::string>& names : {cluster_preset_names(), device_preset_names()}) {
    for (const std::string& name : names) {
      EXPECT_NE(ran.out.find("  " + name + " "), std::string::npos) << name;
    }
  }
}

TEST(ClusterCommand, ListsAsJson) {
  const Json json = parse_json(run_program("cluster --json").out, "output");
  EXPECT_EQ(json.at("clusters").size(), cluster_preset_names().size());
  EXPECT_EQ(json.at("devices").size(), device_preset_names().size());
}

TEST(ClusterCommand, ShowsDevicePeaks) {
  const Ran ran = run_program("cluster dgx-h100:4");
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* text : {"32 in all", "989.4 TFLOP/s", "1.9789 PFLOP/s", "450 GB/s one way",
                           "50 GB/s one way", "Assumed: alpha"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
}

TEST(ClusterCommand, ShowsUnpublishedPeaksAsUnknown) {
  const Ran ran = run_program("cluster laptop");
  EXPECT_NE(ran.out.find("cpu: unknown of memory at unknown"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("peak rates unknown"), std::string::npos) << ran.out;
}

TEST(ClusterCommand, ReadsItsOwnOutput) {
  const std::string printed = run_program("cluster figure-4x4 --json").out;
  EXPECT_EQ(parse_cluster(printed), cluster_preset("figure-4x4"));
  write_text(scratch_folder() + "/mine.json", printed);
  EXPECT_EQ(run_program("cluster mine.json --json").out, printed);
  EXPECT_EQ(run_program("cluster ./mine.json --json").out, printed);
}

TEST(ClusterCommand, ErrorsSuggestFix) {
  expect_failed("cluster dgx-h10", 2, "did you mean dgx-h100? (also 'this'");
  expect_failed("cluster h100", 2, "'h100' is a device; use");
  expect_failed("cluster laptop:2", 2, "'laptop' has one node");
  expect_failed("cluster gone.json", 2, "gone.json': No such file");
  expect_failed("cluster ./", 2, "'./'");
  write_text(scratch_folder() + "/bad.json", "{\"name\": \"x\",\n \"nodse\": 1}");
  expect_failed("cluster bad.json", 2,
                "bad.json: cluster: unknown field 'nodse'; did you mean 'nodes'?");
}

}  // namespace
}  // namespace trireme
