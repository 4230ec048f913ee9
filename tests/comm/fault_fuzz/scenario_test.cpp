#include "comm/fault_fuzz/scenario.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "comm/fault_fuzz/minimize.h"
#include "expect_error.h"
#include "trireme/error.h"

namespace trireme::fault_fuzz {
namespace {

TEST(FaultScenario, TextRoundTrips) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Scenario scenario =
        random_scenario(seed, {.transport = static_cast<Transport>(seed % kTransports)});
    EXPECT_EQ(scenario.problem(), "") << to_text(scenario);
    EXPECT_EQ(parse_scenario(to_text(scenario)), scenario) << to_text(scenario);
  }
}

TEST(FaultScenario, IsDeterminedBySeed) {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(random_scenario(seed, {}), random_scenario(seed, {}));
    texts.insert(to_text(random_scenario(seed, {})));
  }
  EXPECT_EQ(texts.size(), 50U);
}

TEST(FaultScenario, StaysOnOneHostWithoutNamespaces) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Choices choices{.transport = Transport::Tcp, .hosts = Choices::Hosts::One};
    EXPECT_EQ(random_scenario(seed, choices).host_count(), 1);
  }
}

std::string error_of(const std::string& text) {
  return error_message(ErrorKind::Input, [&] { (void)parse_scenario(text); });
}

TEST(FaultScenario, ReportsParseErrors) {
  const std::string good = "transport tcp\ndeadline 1\nhosts 0 1\nlength 3\nop barrier 1\n";
  EXPECT_EQ(parse_scenario("# a comment\n\n" + good).ranks(), 2);
  EXPECT_NE(error_of(good + "op dance 1\n").find("line 6: expected one of barrier"),
            std::string::npos);
  EXPECT_NE(error_of(good + "fault stop host 1 at 1\n").find("'fault stop rank N"),
            std::string::npos);
  EXPECT_NE(error_of(good + "fault kill rank 2 at 1\n").find("rank 2 of 2"), std::string::npos);
  EXPECT_NE(error_of(good + "fault stop rank 1 at 1 for 2\nfault stop rank 1 at 2\n").find("still"),
            std::string::npos);
  EXPECT_NE(error_of("hosts 0\n").find("needs ops"), std::string::npos);
}

/// Only a stop and a ring are needed; rank 3 is the one that is stopped.
TEST(FaultScenario, MinimizesToFailingOps) {
  const Scenario from = parse_scenario(
      "transport mixed\ndeadline 1\nhosts 0 1 2 2 0\nlength 3\nop ring 5000\nop split 7\n"
      "op flood 9\nfault cut host 0 at 1 for 1\nfault stop rank 3 at 1 for 2\nfault kill rank 0 at "
      "2\n");
  const auto fails = [](const Scenario& candidate) {
    return std::ranges::find(candidate.ops, Op::Kind::Ring, &Op::kind) != candidate.ops.end() &&
           std::ranges::find(candidate.faults, Fault::Kind::Stop, &Fault::kind) !=
               candidate.faults.end();
  };
  const Scenario smallest = minimize(from, fails, [] { return false; });
  EXPECT_EQ(smallest.ranks(), 2) << to_text(smallest);
  EXPECT_EQ(smallest.ops, (std::vector<Op>{{Op::Kind::Ring, 1}}));
  ASSERT_EQ(smallest.faults.size(), 1U);
  EXPECT_EQ(smallest.faults[0].kind, Fault::Kind::Stop);
  EXPECT_EQ(smallest.problem(), "");
  EXPECT_EQ(minimize(from, fails, [] { return true; }), from);
}

}  // namespace
}  // namespace trireme::fault_fuzz
