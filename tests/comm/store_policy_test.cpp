// Passing: what is copied, whichever way. How fast a way is is not for a test to say.
#include "comm/direct/store_policy.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "comm/numbered_bytes.h"

namespace trireme::comm {
namespace {

constexpr std::int64_t kLongestOfOne = std::int64_t{1} << 20;

TEST(Passing, CopiesAllWhicheverWay) {
  for (const Stores first : {Stores::Cached, Stores::Streaming}) {
    Passing passing(first, kLongestOfOne);
    for (int call = 0; call < 100; ++call) {
      for (const std::size_t bytes : {1U, 4095U, 32768U, 32769U, 100001U}) {
        const auto from = numbered_bytes(bytes);
        std::vector<std::byte> to(bytes);
        passing.begin(passing.propose(Operation::Allreduce, static_cast<std::int64_t>(bytes)));
        passing.copy(to.data(), from.data(), bytes);
        passing.end();
        ASSERT_EQ(to, from) << "call " << call;
      }
    }
  }
}

// Both ways are tried: in the first dozens of calls the way is not the same in all.
TEST(Passing, TriesTheOtherWay) {
  Passing passing(Stores::Cached, kLongestOfOne);
  const auto from = numbered_bytes(100'000);
  std::vector<std::byte> to(from.size());
  int streamed = 0;
  for (int call = 0; call < 60; ++call) {
    passing.begin(passing.propose(Operation::Gather, static_cast<std::int64_t>(from.size())));
    streamed += passing.way() == Stores::Streaming ? 1 : 0;
    passing.copy(to.data(), from.data(), from.size());
    passing.end();
  }
  EXPECT_GE(streamed, 4);
  EXPECT_LT(streamed, 60);
}

// The same in one long call, of which parts go the one way and the other.
TEST(Passing, TriesTheOtherWayWithinALongCall) {
  Passing passing(Stores::Cached, kLongestOfOne);
  const auto from = numbered_bytes(100'000);
  const auto part = static_cast<std::int64_t>(from.size());
  std::vector<std::byte> to(from.size());
  int streamed = 0;
  passing.begin(passing.propose(Operation::Allreduce, 60 * part));
  for (int k = 0; k < 60; ++k) {
    streamed += passing.way() == Stores::Streaming ? 1 : 0;
    passing.copy(to.data(), from.data(), from.size());
    const Stores next = passing.next_part(k < 59 ? 1.0 / 60 : 0);
    EXPECT_EQ(passing.way(), next);
  }
  passing.end();
  EXPECT_GE(streamed, 4);
  EXPECT_LT(streamed, 60);
  EXPECT_EQ(to, from);
}

// Who does not decide goes as it is told.
TEST(Passing, FollowsWithoutJudging) {
  Passing passing(Stores::Cached, kLongestOfOne);
  passing.begin(Stores::Streaming);
  EXPECT_EQ(passing.next_part(0.5), Stores::Streaming);
  passing.follow(Stores::Cached);
  EXPECT_EQ(passing.way(), Stores::Cached);
  passing.end();
  EXPECT_EQ(passing.propose(Operation::Allreduce, 1000), Stores::Cached);
}

// What was proposed for a call that then went without staging memory is not judged by the next.
TEST(Passing, DropsWhatWasNotBegun) {
  Passing passing(Stores::Cached, kLongestOfOne);
  for (int call = 0; call < 60; ++call) {
    EXPECT_EQ(passing.propose(Operation::Allreduce, 100'000), Stores::Cached) << call;
    passing.drop();
    passing.begin(Stores::Streaming);
    passing.end();
  }
}

TEST(Passing, KeepsToTheWayThatWasGivenInLongCallsOfOne) {
  Passing passing(Stores::Cached, 1000);
  const auto from = numbered_bytes(100'000);
  std::vector<std::byte> to(from.size());
  for (int call = 0; call < 60; ++call) {
    passing.begin(passing.propose(call % 2 == 0 ? Operation::Broadcast : Operation::Scatter, 1001));
    EXPECT_EQ(passing.way(), Stores::Cached);
    passing.copy(to.data(), from.data(), from.size());
    passing.end();
  }
  EXPECT_EQ(to, from);
}

// Another operation, or another length, is another matter: its first calls go the way that was given.
TEST(Passing, KeepsKindsOfCallsApart) {
  Passing passing(Stores::Streaming, kLongestOfOne);
  const auto from = numbered_bytes(100'000);
  std::vector<std::byte> to(from.size());
  const auto bytes = static_cast<std::int64_t>(from.size());
  for (int call = 0; call < 2; ++call) {
    passing.begin(passing.propose(Operation::Gather, bytes));
    passing.copy(to.data(), from.data(), from.size());
    passing.end();
  }
  EXPECT_EQ(passing.propose(Operation::Gather, bytes), Stores::Cached);  // the first try
  EXPECT_EQ(passing.propose(Operation::Gather, bytes * 4), Stores::Streaming);
  EXPECT_EQ(passing.propose(Operation::Allreduce, bytes), Stores::Streaming);
}

}  // namespace
}  // namespace trireme::comm
