// Small runs of `trireme train` on several ranks.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"
#include "cli/program_under_way.h"
#include "temporary_folder.h"

namespace trireme {

/// For f32 losses, whose sums are taken in a different order.
inline constexpr double kTolerance = 1e-5;
inline const std::string kSmall =
    "train --model gpt-nano --batch 6 --length 32 --rate constant:0.001 ";

inline std::vector<double> losses_in(const std::string& lines) {
  std::vector<double> losses;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line);
    if (!json.contains("summary")) {
      losses.push_back(json["loss"].get<double>());
    }
  }
  return losses;
}

inline void expect_same(const std::vector<double>& one, const std::vector<double>& many,
                        const std::string& what) {
  ASSERT_FALSE(one.empty());
  ASSERT_EQ(one.size(), many.size()) << what;
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], many[i], kTolerance * one[i]) << what << ", line " << i;
  }
}

class TrainRanks : public ::testing::Test {
 protected:
  /// A new name on each call.
  std::string new_run() { return folder_ / fmt::format("run-{}", ++runs_); }

  std::vector<double> losses(const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 3 --json --run-folder " + new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    std::istringstream err(ran.err);
    for (std::string line; std::getline(err, line);) {
      EXPECT_TRUE(line.starts_with("trireme: note: ")) << options << ": " << line;
    }
    return losses_in(ran.out);
  }

  static std::vector<double> resumed(const std::string& run, const std::string& options) {
    const Ran ran = run_program("train --json --resume " + run + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    return losses_in(ran.out);
  }

  /// Expects one line of error, exit code 2, and no run folder.
  void expect_refused(const std::string& options, const std::string& words) {
    const std::string run = new_run();
    const Ran ran = run_program(kSmall + "--steps 3 --run-folder " + run + " " + options);
    EXPECT_EQ(ran.exit_code, 2) << options << ": " << ran.err;
    EXPECT_EQ(ran.err.find("trireme: "), 0U) << options << ": " << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << options << ": " << ran.err;
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << options << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << options;
    EXPECT_FALSE(std::filesystem::exists(run)) << options;
  }

  /// Starts a run that does not end by itself, and waits for its first steps.
  std::unique_ptr<Started> start(const std::string& run, const std::string& options) {
    auto started = std::make_unique<Started>(
        kSmall + "--steps 1000000 --run-folder " + run + " " + options, folder_.path());
    // Wait until the third step is recorded.
    EXPECT_TRUE(
        becomes_true([&] { return std::filesystem::exists(run + "/trace.json"); }, kAMinute));
    return started;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

}  // namespace trireme
