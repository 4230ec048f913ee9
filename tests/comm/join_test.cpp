// Joining: what ranks that do not fit together are told.
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/processes.h"
#include "comm/rendezvous/secret.h"
#include "comm/rendezvous/socket.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::Process;

/// A way for ranks to reach one another.
struct Way {
  std::string name;
  WorldOptions options;
};

std::vector<Way> ways() {
  std::vector<Way> all{
      {"shm", {.transport = TransportKind::SharedMemory}},
      {"tcp", {.transport = TransportKind::Tcp}},
      {"tls", {.transport = TransportKind::Tcp, .encrypt = true}},
  };
  if (is_built(TransportKind::Ucx)) {
    all.push_back({"ucx", {.transport = TransportKind::Ucx}});
  }
  return all;
}

/// Sums the ranks + 1 over the world: "sum 6".
std::string sum_ranks(World& world) {
  std::vector<std::int64_t> data(1000, world.rank() + 1);
  world.all().run(allreduce<std::int64_t>(data));
  return fmt::format("sum {}", data.front());
}

/// Where the ranks of a test meet: a store that rank 0 serves.
struct Place {
  std::string store = to_text(comm::listen_on().address);
  std::string secret = comm::Secret::random().hex();

  [[nodiscard]] Process start(Rank rank, Rank size, const WorldOptions& options) const {
    return Process([=, *this] {
      World world = join({.rank = rank, .size = size, .store = store, .secret = secret}, options);
      return sum_ranks(world);
    });
  }
};

/// Matches "rank 1 joined twice: …" about these two processes, in either order.
void expect_joined_twice(const std::string& text, Rank rank, pid_t a, pid_t b) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const auto message = [&](pid_t first, pid_t second) {
    return fmt::format(
        "rank {} joined twice: host {} pid {} and host {} pid {}; give every process its own rank",
        rank, host.data(), first, host.data(), second);
  };
  EXPECT_TRUE(text == message(a, b) || text == message(b, a)) << text;
}

class JoinedTwice : public testing::TestWithParam<Way> {};

/// Two processes claim rank 1 at the same moment. One is refused; the world is not disturbed.
TEST_P(JoinedTwice, RefusesTheSecondProcessAlone) {
  const Place place;
  std::vector<Process> twins;
  twins.push_back(place.start(1, 3, GetParam().options));
  twins.push_back(place.start(1, 3, GetParam().options));
  Process zero = place.start(0, 3, GetParam().options);
  const int refused = test::first_done(twins);
  ASSERT_GE(refused, 0);
  Process two = place.start(2, 3, GetParam().options);  // the store is there until it has joined
  expect_joined_twice(twins[static_cast<std::size_t>(refused)].result(), 1, twins[0].pid(),
                      twins[1].pid());
  EXPECT_EQ(twins[static_cast<std::size_t>(1 - refused)].result(), "sum 6");
  EXPECT_EQ(zero.result(), "sum 6");
  EXPECT_EQ(two.result(), "sum 6");
}

/// Rank 0 serves the store, so its twin cannot.
TEST_P(JoinedTwice, NamesASecondRankZero) {
  const Place place;
  std::vector<Process> twins;
  twins.push_back(place.start(0, 2, GetParam().options));
  twins.push_back(place.start(0, 2, GetParam().options));
  const int refused = test::first_done(twins);
  ASSERT_GE(refused, 0);
  Process one = place.start(1, 2, GetParam().options);
  expect_joined_twice(twins[static_cast<std::size_t>(refused)].result(), 0, twins[0].pid(),
                      twins[1].pid());
  EXPECT_EQ(twins[static_cast<std::size_t>(1 - refused)].result(), "sum 3");
  EXPECT_EQ(one.result(), "sum 3");
}

INSTANTIATE_TEST_SUITE_P(Ways, JoinedTwice, testing::ValuesIn(ways()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace trireme
