#include "trireme/program_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {
namespace {

/// A program of x and w, f32[4], and these nodes.
Program program_of(const std::string& nodes) {
  return make_program(parse_graph("graph g {\n  input %x: f32[4]\n  input %w: f32[4]\n" + nodes +
                                  "  output x = %x\n}\n"));
}

/// Two ranks that are one group, "data".
std::vector<std::string> verify_pair(const std::string& zero, const std::string& one) {
  const std::vector<Program> programs{program_of(zero), program_of(one)};
  return trireme::problems(programs, std::vector<RankGroups>(2, {{"data", {0, 1}}}));
}

using Problems = std::vector<std::string>;

const std::string kSum = "  %a: f32[4] = all_reduce(%x) group=\"data\" ranks=2\n";
const std::string kOtherSum = "  %b: f32[4] = all_reduce(%w) group=\"data\" ranks=2\n";
const std::string kSend = "  %s: u8[0] = send(%x) to=1 tag=5\n";
const std::string kReceive = "  %r: f32[4] = receive() from=0 tag=5 shape=[4]\n";

TEST(ProgramSet, AcceptsMatchingPrograms) {
  EXPECT_EQ(verify_pair("", ""), Problems());
  EXPECT_EQ(verify_pair(kSum + kOtherSum, kSum + kOtherSum), Problems());
  EXPECT_EQ(verify_pair(kSend + kSum, kSum + kReceive), Problems());
  // Two of one source and tag arrive in order.
  const std::string other_send = "  %s2: u8[0] = send(%w) to=1 tag=5\n";
  const std::string other_receive = "  %r2: f32[4] = receive() from=0 tag=5 shape=[4]\n";
  EXPECT_EQ(verify_pair(kSend + other_send, kReceive + other_receive), Problems());
}

TEST(ProgramSet, ReportsUnmatchedMessages) {
  EXPECT_EQ(verify_pair(kSend, ""),
            Problems{"rank 0, instruction 0, send of %x: f32[4] to rank 1, tag 5: rank 1 has no "
                     "receive for it"});
  EXPECT_EQ(verify_pair("", kReceive),
            Problems{"rank 1, instruction 0, receive of %r: f32[4] from rank 0, tag 5: rank 0 has "
                     "no send for it"});
  EXPECT_EQ(verify_pair("  %s: u8[0] = send(%x) to=2 tag=5\n", ""),
            Problems{"rank 0, instruction 0, send of %x: f32[4] to rank 2, tag 5: invalid peer; "
                     "there are 2 ranks"});
  EXPECT_EQ(verify_pair(kSend, "  %r: f32[3] = receive() from=0 tag=5 shape=[3]\n"),
            Problems{"rank 0, instruction 0, send of %x: f32[4] to rank 1, tag 5: its receive is "
                     "rank 1, instruction 0, receive of %r: f32[3] from rank 0, tag 5"});
}

TEST(ProgramSet, ReportsMismatchedCollectives) {
  EXPECT_EQ(verify_pair(kSum, ""),
            Problems{"group data of ranks 0, 1, call 0: rank 1 does not make it; rank 0, "
                     "instruction 0, all_reduce of %x: f32[4] along data, does"});
  EXPECT_EQ(verify_pair(kSum,
                        "  %a: f32[4] = all_reduce(%x) group=\"data\" ranks=2 "
                        "reduction=\"max\"\n"),
            Problems{"group data of ranks 0, 1, call 0: rank 0, instruction 0, does all_reduce of "
                     "%x: f32[4] ranks=2 reduction=sum; rank 1, instruction 0, does all_reduce of "
                     "%x: f32[4] ranks=2 reduction=max"});
  // Alike except for the values that they reduce.
  EXPECT_EQ(verify_pair(kSum + kOtherSum, kOtherSum + kSum),
            Problems{"group data of ranks 0, 1, call 0: rank 0, instruction 0, does all_reduce of "
                     "%x: f32[4] ranks=2 reduction=sum; rank 1, instruction 0, does all_reduce of "
                     "%w: f32[4] ranks=2 reduction=sum"});
}

TEST(ProgramSet, ReportsWrongGroupPositions) {
  const std::string gather =
      "  %a: f32[8], %t: u8[0] = all_gather(%x) group=\"data\" ranks=2 index=0 size=8\n";
  EXPECT_EQ(verify_pair(gather, gather),
            Problems{"rank 1, instruction 0, all_gather of %x: f32[4] along data: it is for index "
                     "0 of the group, the rank's is 1"});
  const std::string elsewhere = "  %a: f32[4] = all_reduce(%x) group=\"tensor\" ranks=2\n";
  EXPECT_EQ(verify_pair(elsewhere, ""),
            Problems{"rank 0, instruction 0, all_reduce of %x: f32[4] along tensor: it is in no "
                     "group of that name"});
  const std::string many = "  %a: f32[4] = all_reduce(%x) group=\"data\" ranks=3\n";
  EXPECT_EQ(verify_pair(many, many).at(0),
            "rank 0, instruction 0, all_reduce of %x: f32[4] along data: it is for 3 ranks, the "
            "group has 2");
}

TEST(ProgramSet, ReportsInconsistentGroups) {
  const std::vector<Program> programs(2, program_of(""));
  const std::vector<RankGroups> groups{{{"data", {0, 1}}}, {{"data", {1, 2}}}};
  EXPECT_EQ(trireme::problems(programs, groups),
            (Problems{"rank 0: its group data has the ranks 0, 1; rank 1 does not see it so",
                      "rank 1: its group data has a rank 2 of 2"}));
  EXPECT_THROW((void)trireme::problems(programs, std::vector<RankGroups>(1)), Error);
}

TEST(ProgramSet, ReportsDeadlockCycle) {
  // Each waits for the other before it sends what the other waits for.
  const auto nodes = [](int other) {
    return fmt::format(
        "  %r: f32[4] = receive() from={0} tag=5 shape=[4]\n  %y: f32[4] = relu(%r)\n"
        "  %s: u8[0] = send(%y) to={0} tag=5\n",
        other);
  };
  EXPECT_EQ(verify_pair(nodes(1), nodes(0)),
            Problems{"cyclic wait: rank 0 is blocked at instruction 1 until instruction 0, receive "
                     "of %r: f32[4] from rank 1, tag 5, is done, for which rank 1 must begin its "
                     "instruction 2; rank 1 is blocked at instruction 1 until instruction 0, "
                     "receive of %r: f32[4] from rank 0, tag 5, is done, for which rank 0 must "
                     "begin its instruction 2"});
}

TEST(ProgramSet, ReportsAtMostEightProblems) {
  std::string sends;
  for (int i = 0; i < 20; ++i) {
    sends += fmt::format("  %s{0}: u8[0] = send(%x) to=1 tag={0}\n", i);
  }
  EXPECT_EQ(verify_pair(sends, "").size(), 8U);
}

TEST(Traffic, MatchesFormulas) {
  using All = std::vector<OpTraffic>;
  EXPECT_EQ(traffic_of(program_of("")), All());
  EXPECT_EQ(traffic_of(program_of(kSum + kOtherSum + kSend)),
            (All{{"all_reduce", "data", 2 * 16.0}, {"send", "", 16}}));
  EXPECT_EQ(traffic_of(program_of(kReceive)), (All{{"receive", "", 0}}));
  // Five rows on three ranks are 2, 2 and 1.
  const Program uneven = make_program(parse_graph(R"(graph g {
    input %x: f32[2,3]
    input %y: f32[5,3]
    %a: f32[5,3], %t: u8[0] = all_gather(%x) group="data" ranks=3 index=1 size=5
    %b: f32[1,3], %u: u8[0] = reduce_scatter(%y) group="data" ranks=3 index=2
    %c: f32[5,3], %v: u8[0] = all_gather(%x) group="tensor" ranks=3 index=0 size=5
    %d: f32[1,9], %w: u8[96] = all_to_all(%y) group="data" ranks=3 index=2 from=1 to=0 size=9
    output a = %a
  })"));
  const double row = 3 * 4;
  EXPECT_EQ(traffic_of(uneven), (All{{"all_gather", "data", 2 * 2 * row},
                                     {"all_gather", "tensor", 2 * 2 * row},
                                     {"all_to_all", "data", (5 - 1) * row},
                                     {"reduce_scatter", "data", (5 - 1) * row}}));
}

}  // namespace
}  // namespace trireme
