// StorePolicy: every byte is copied, whatever the stores. A test cannot measure their speed.
#include "comm/direct/store_policy.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "comm/numbered_bytes.h"

namespace trireme::comm {
namespace {

constexpr std::int64_t kLongestOfOne = std::int64_t{1} << 20;

TEST(StorePolicy, CopiesEverythingWithEitherStore) {
  for (const Stores first : {Stores::Cached, Stores::Streaming}) {
    StorePolicy policy(first, kLongestOfOne);
    for (int call = 0; call < 100; ++call) {
      for (const std::size_t bytes : {1U, 4095U, 32768U, 32769U, 100001U}) {
        const auto from = numbered_bytes(bytes);
        std::vector<std::byte> to(bytes);
        policy.begin(policy.propose(Operation::Allreduce, static_cast<std::int64_t>(bytes)));
        policy.copy(to.data(), from.data(), bytes);
        policy.end();
        ASSERT_EQ(to, from) << "call " << call;
      }
    }
  }
}

// Both kinds of stores are tried: the first dozens of calls do not all use the same.
TEST(StorePolicy, TriesBothStores) {
  StorePolicy policy(Stores::Cached, kLongestOfOne);
  const auto from = numbered_bytes(100'000);
  std::vector<std::byte> to(from.size());
  int streamed = 0;
  for (int call = 0; call < 60; ++call) {
    policy.begin(policy.propose(Operation::Gather, static_cast<std::int64_t>(from.size())));
    streamed += policy.stores() == Stores::Streaming ? 1 : 0;
    policy.copy(to.data(), from.data(), from.size());
    policy.end();
  }
  EXPECT_GE(streamed, 4);
  EXPECT_LT(streamed, 60);
}

// The same in one long call, whose parts use both kinds of stores.
TEST(StorePolicy, TriesBothStoresWithinLongCall) {
  StorePolicy policy(Stores::Cached, kLongestOfOne);
  const auto from = numbered_bytes(100'000);
  const auto part = static_cast<std::int64_t>(from.size());
  std::vector<std::byte> to(from.size());
  int streamed = 0;
  policy.begin(policy.propose(Operation::Allreduce, 60 * part));
  for (int k = 0; k < 60; ++k) {
    streamed += policy.stores() == Stores::Streaming ? 1 : 0;
    policy.copy(to.data(), from.data(), from.size());
    const Stores next = policy.next_part(k < 59 ? 1.0 / 60 : 0);
    EXPECT_EQ(policy.stores(), next);
  }
  policy.end();
  EXPECT_GE(streamed, 4);
  EXPECT_LT(streamed, 60);
  EXPECT_EQ(to, from);
}

// A rank that does not decide follows the decision.
TEST(StorePolicy, FollowsDecisionOfAnotherRank) {
  StorePolicy policy(Stores::Cached, kLongestOfOne);
  policy.begin(Stores::Streaming);
  EXPECT_EQ(policy.next_part(0.5), Stores::Streaming);
  policy.follow(Stores::Cached);
  EXPECT_EQ(policy.stores(), Stores::Cached);
  policy.end();
  EXPECT_EQ(policy.propose(Operation::Allreduce, 1000), Stores::Cached);
}

// A proposal for a call that then did not use staging memory is not judged by the next.
TEST(StorePolicy, IgnoresDroppedProposals) {
  StorePolicy policy(Stores::Cached, kLongestOfOne);
  for (int call = 0; call < 60; ++call) {
    EXPECT_EQ(policy.propose(Operation::Allreduce, 100'000), Stores::Cached) << call;
    policy.drop();
    policy.begin(Stores::Streaming);
    policy.end();
  }
}

TEST(StorePolicy, KeepsInitialStoresForLongRootedCalls) {
  StorePolicy policy(Stores::Cached, 1000);
  const auto from = numbered_bytes(100'000);
  std::vector<std::byte> to(from.size());
  for (int call = 0; call < 60; ++call) {
    policy.begin(policy.propose(call % 2 == 0 ? Operation::Broadcast : Operation::Scatter, 1001));
    EXPECT_EQ(policy.stores(), Stores::Cached);
    policy.copy(to.data(), from.data(), from.size());
    policy.end();
  }
  EXPECT_EQ(to, from);
}

// Another operation, or another length, is separate: its first calls use the initial stores.
TEST(StorePolicy, TracksOperationsAndSizesSeparately) {
  StorePolicy policy(Stores::Streaming, kLongestOfOne);
  const auto from = numbered_bytes(100'000);
  std::vector<std::byte> to(from.size());
  const auto bytes = static_cast<std::int64_t>(from.size());
  for (int call = 0; call < 2; ++call) {
    policy.begin(policy.propose(Operation::Gather, bytes));
    policy.copy(to.data(), from.data(), from.size());
    policy.end();
  }
  EXPECT_EQ(policy.propose(Operation::Gather, bytes), Stores::Cached);  // the first trial
  EXPECT_EQ(policy.propose(Operation::Gather, bytes * 4), Stores::Streaming);
  EXPECT_EQ(policy.propose(Operation::Allreduce, bytes), Stores::Streaming);
}

}  // namespace
}  // namespace trireme::comm
