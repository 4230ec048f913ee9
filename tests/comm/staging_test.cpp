// Staging: what is copied, whichever way. How fast a way is is not for a test to say.
#include "comm/staging.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

constexpr std::int64_t kLongestOfOne = std::int64_t{1} << 20;

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  return data;
}

TEST(Staging, CopiesAllWhicheverWay) {
  for (const Stores first : {Stores::Cached, Stores::Streaming}) {
    Staging staging(first, kLongestOfOne);
    for (int call = 0; call < 100; ++call) {
      for (const std::size_t bytes : {1U, 4095U, 32768U, 32769U, 100001U}) {
        const auto from = numbered(bytes);
        std::vector<std::byte> to(bytes);
        staging.begin(Operation::Allreduce, static_cast<std::int64_t>(bytes));
        staging.copy(to.data(), from.data(), bytes);
        staging.end();
        ASSERT_EQ(to, from) << "call " << call;
      }
    }
  }
}

// Both ways are tried: in the first dozens of calls the way is not the same in all.
TEST(Staging, TriesTheOtherWay) {
  Staging staging(Stores::Cached, kLongestOfOne);
  const auto from = numbered(100'000);
  std::vector<std::byte> to(from.size());
  int streamed = 0;
  for (int call = 0; call < 60; ++call) {
    staging.begin(Operation::Gather, static_cast<std::int64_t>(from.size()));
    streamed += staging.way() == Stores::Streaming ? 1 : 0;
    staging.copy(to.data(), from.data(), from.size());
    staging.end();
  }
  EXPECT_GE(streamed, 4);
  EXPECT_LT(streamed, 60);
}

TEST(Staging, KeepsToTheWayThatWasGivenInLongCallsOfOne) {
  Staging staging(Stores::Cached, 1000);
  const auto from = numbered(100'000);
  std::vector<std::byte> to(from.size());
  for (int call = 0; call < 60; ++call) {
    staging.begin(call % 2 == 0 ? Operation::Broadcast : Operation::Scatter, 1001);
    EXPECT_EQ(staging.way(), Stores::Cached);
    staging.copy(to.data(), from.data(), from.size());
    staging.end();
  }
  EXPECT_EQ(to, from);
}

// Another operation, or another length, is another matter: its first calls go the way that was given.
TEST(Staging, KeepsKindsOfCallsApart) {
  Staging staging(Stores::Streaming, kLongestOfOne);
  const auto from = numbered(100'000);
  std::vector<std::byte> to(from.size());
  for (int call = 0; call < 8; ++call) {
    staging.begin(Operation::Gather, static_cast<std::int64_t>(from.size()));
    staging.copy(to.data(), from.data(), from.size());
    staging.end();
  }
  staging.begin(Operation::Gather, static_cast<std::int64_t>(from.size()));
  EXPECT_EQ(staging.way(), Stores::Cached);
  staging.begin(Operation::Gather, static_cast<std::int64_t>(from.size()) * 4);
  EXPECT_EQ(staging.way(), Stores::Streaming);
  staging.begin(Operation::Allreduce, static_cast<std::int64_t>(from.size()));
  EXPECT_EQ(staging.way(), Stores::Streaming);
}

}  // namespace
}  // namespace trireme::comm
