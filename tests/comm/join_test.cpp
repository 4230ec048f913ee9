// Joining: the errors of ranks that do not fit together.
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "comm/processes.h"
#include "comm/rendezvous_helpers.h"
#include "comm/run_ranks.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::Process;
using test::WorldCase;

std::vector<WorldCase> world_cases() {
  std::vector<WorldCase> all{
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

/// Where the ranks of a test find one another: a store that rank 0 serves.
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

class DuplicateRank : public testing::TestWithParam<WorldCase> {};

/// Two processes claim rank 1 at the same moment. One is rejected; the world is not disturbed.
TEST_P(DuplicateRank, RejectsOnlySecondProcess) {
  const Place place;
  std::vector<Process> twins;
  twins.push_back(place.start(1, 3, GetParam().options));
  twins.push_back(place.start(1, 3, GetParam().options));
  Process zero = place.start(0, 3, GetParam().options);
  const int refused = test::first_done(twins);
  ASSERT_GE(refused, 0);
  Process two = place.start(2, 3, GetParam().options);  // the store exists until it has joined
  expect_joined_twice(twins[refused].result(), 1, twins[0].pid(), twins[1].pid());
  EXPECT_EQ(twins[1 - refused].result(), "sum 6");
  EXPECT_EQ(zero.result(), "sum 6");
  EXPECT_EQ(two.result(), "sum 6");
}

/// Rank 0 serves the store, so its twin cannot.
TEST_P(DuplicateRank, ReportsSecondRankZero) {
  const Place place;
  std::vector<Process> twins;
  twins.push_back(place.start(0, 2, GetParam().options));
  twins.push_back(place.start(0, 2, GetParam().options));
  const int refused = test::first_done(twins);
  ASSERT_GE(refused, 0);
  Process one = place.start(1, 2, GetParam().options);
  expect_joined_twice(twins[refused].result(), 0, twins[0].pid(), twins[1].pid());
  EXPECT_EQ(twins[1 - refused].result(), "sum 3");
  EXPECT_EQ(one.result(), "sum 3");
}

INSTANTIATE_TEST_SUITE_P(Ways, DuplicateRank, testing::ValuesIn(world_cases()),
                         [](const auto& param) { return param.param.name; });

/// Joins using only environment variables, as ranks of one host do.
Process start_by_variables(Rank rank, Rank size, uid_t user = geteuid()) {
  const std::map<std::string, std::string> variables{{"TRIREME_RANK", std::to_string(rank)},
                                                     {"TRIREME_SIZE", std::to_string(size)}};
  return Process([=] {
    if (user != geteuid()) {
      test::require(setresuid(user, user, user) == 0, "cannot become another user");
      prctl(PR_SET_DUMPABLE, 1);  // required for shared memory
    }
    World world = join([&](const std::string& name) -> std::optional<std::string> {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : std::optional(at->second);
    });
    return sum_ranks(world);
  });
}

TEST(JoinByFile, ReportsSecondRankZero) {
  std::vector<Process> twins;
  twins.push_back(start_by_variables(0, 2));
  twins.push_back(start_by_variables(0, 2));
  const int refused = test::first_done(twins);
  ASSERT_GE(refused, 0);
  Process one = start_by_variables(1, 2);
  expect_joined_twice(twins[refused].result(), 0, twins[0].pid(), twins[1].pid());
  EXPECT_EQ(twins[1 - refused].result(), "sum 3");
  EXPECT_EQ(one.result(), "sum 3");
}

/// Another user has created something at every predictable name.
TEST(JoinByFile, WorksAfterAnotherUserCreatedFolder) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root to run as two users";
  }
  constexpr uid_t kUser = 54321;
  const std::string folder = fmt::format("/tmp/trireme-{}", kUser);
  const std::string file = fmt::format("{}-parent-{}.meet", folder, getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0777), 0);
  ASSERT_EQ(mkdir(file.c_str(), 0777), 0);
  Process zero = start_by_variables(0, 2, kUser);
  Process one = start_by_variables(1, 2, kUser);
  EXPECT_EQ(zero.result(), "sum 3");
  EXPECT_EQ(one.result(), "sum 3");
  for (const auto& entry : std::filesystem::directory_iterator("/tmp")) {
    if (entry.path().string().starts_with(folder)) {
      std::filesystem::remove_all(entry.path());
    }
  }
}

// Options that differ.

struct Difference {
  std::string name;
  WorldOptions zero;
  WorldOptions one;
  std::string options;  ///< the options of rank 1, and those of rank 0
};

// NOLINTNEXTLINE(readability-identifier-naming): googletest's name
void PrintTo(const Difference& difference, std::ostream* out) {
  *out << difference.name;
}

std::vector<Difference> differences() {
  std::vector<Difference> all;
  for (const WorldCase& way : world_cases()) {
    const auto add = [&](const std::string& name, WorldOptions one, const std::string& values) {
      all.push_back({way.name + "_" + name, way.options, std::move(one), values});
    };
    WorldOptions one = way.options;
    one.connections = 4;
    add("connections", one, "connections = 4|2");
    one = way.options;
    one.checksums = WorldOptions::Checksums::All;
    add("checksums", one, "checksums = all|network");
    one = way.options;
    one.deadline = {0.25};
    add("deadline", one, "deadline = 0.25 s|2 s");
    one = way.options;
    one.transport = TransportKind::Automatic;
    add("transport", one,
        fmt::format("transport = automatic|{}", trireme::to_text(way.options.transport)));
  }
  return all;
}

class MismatchedOptions : public testing::TestWithParam<Difference> {};

TEST_P(MismatchedOptions, AreReportedToAllRanks) {
  const Place place;
  Process zero = place.start(0, 3, GetParam().zero);
  Process one = place.start(1, 3, GetParam().one);
  Process two = place.start(2, 3, GetParam().zero);
  const std::size_t bar = GetParam().options.find('|');
  const std::string ones = GetParam().options.substr(0, bar);
  const std::string option = ones.substr(0, ones.find(" ="));
  const std::string zeros = option + " = " + GetParam().options.substr(bar + 1);
  const std::string fix = ": give all ranks the same options";
  const auto values = [](const std::string& text) { return text.substr(text.find("= ") + 2); };
  // The others are compared with the rank that joins first.
  std::set<std::string> expected;
  for (const int other : {0, 2}) {
    expected.insert(fmt::format("rank 1 was started with {}, rank {} with {}{}", ones, other,
                                values(zeros), fix));
    expected.insert(fmt::format("rank {} was started with {}, rank 1 with {}{}", other, zeros,
                                values(ones), fix));
  }
  const std::string text = zero.result();
  EXPECT_TRUE(expected.contains(text)) << text;
  EXPECT_EQ(one.result(), text);
  EXPECT_EQ(two.result(), text);
}

INSTANTIATE_TEST_SUITE_P(Ways, MismatchedOptions, testing::ValuesIn(differences()),
                         [](const auto& param) { return param.param.name; });

class CompatibleOptions : public testing::TestWithParam<WorldCase> {};

TEST_P(CompatibleOptions, DoNotPreventJoining) {
  const Place place;
  WorldOptions other = GetParam().options;
  other.bind = "127.0.0.2";
  other.on_step = [](Operation, std::size_t) {};
  if (GetParam().name == "ucx") {
    other.bind = "127.0.0.1";  // the interface has one address
  }
  Process zero = place.start(0, 2, GetParam().options);
  Process one = place.start(1, 2, other);
  EXPECT_EQ(zero.result(), "sum 3");
  EXPECT_EQ(one.result(), "sum 3");
}

INSTANTIATE_TEST_SUITE_P(Ways, CompatibleOptions, testing::ValuesIn(world_cases()),
                         [](const auto& param) { return param.param.name; });

/// Whichever joins first, and without waiting for a rank that nobody starts.
TEST(Join, ComparesWorldSize) {
  const Place place;
  const WorldOptions patient{.join_timeout = {86400}};
  Process zero = place.start(0, 2, patient);
  Process one = place.start(1, 3, patient);
  const std::string text = zero.result();
  EXPECT_TRUE(text.starts_with("rank 0 was started with size = 2, rank 1 with 3") ||
              text.starts_with("rank 1 was started with size = 3, rank 0 with 2"))
      << text;
  EXPECT_EQ(one.result(), text);
}

/// A rank that cannot join notifies those that would wait for it.
TEST(Join, ReportsFailureOfOneRankToOthers) {
  const Place place;
  Process zero = place.start(0, 3, {});
  Process one = place.start(1, 3, {});
  Process two = place.start(2, 3, {.connections = 0});
  const std::string reason = two.result();
  EXPECT_NE(reason.find("0 connections"), std::string::npos) << reason;
  EXPECT_EQ(zero.result(), "rank 2 could not join: " + reason);
  EXPECT_EQ(one.result(), "rank 2 could not join: " + reason);
}

// Ranks that do not join.

TEST(JoinTimeout, NamesMissingRanks) {
  std::vector<Process> ranks;
  for (const WorldCase& way : world_cases()) {
    const Place place;
    WorldOptions options = way.options;
    options.join_timeout = {3.0};
    ranks.push_back(place.start(0, 4, options));
    ranks.push_back(place.start(1, 4, options));
  }
  for (Process& rank : ranks) {
    const std::string text = rank.result();
    EXPECT_NE(text.find(" waited 3 s; ranks 2, 3 of 4 have not joined: start all ranks within "
                        "the join timeout"),
              std::string::npos)
        << text;
  }
}

TEST(JoinTimeout, NamesRankZeroThatHostsStore) {
  const Place place;
  Process one = place.start(1, 2, {.join_timeout = {0.3}});
  const std::string text = one.result();
  EXPECT_TRUE(text.starts_with("rank 1 waited 300 ms; rank 0 of 2 has not joined: cannot connect"))
      << text;
}

TEST(JoinTimeout, MentionsRankThatJoinedTwice) {
  const Place place;
  Process zero = place.start(0, 3, {.join_timeout = {3.0}});
  std::vector<Process> twins;
  twins.push_back(place.start(1, 3, {.join_timeout = {3.0}}));
  twins.push_back(place.start(1, 3, {.join_timeout = {3.0}}));
  const std::string text = zero.result();
  EXPECT_NE(text.find("rank 2 of 3 has not joined"), std::string::npos) << text;
  EXPECT_NE(text.find("; rank 1 joined twice: host"), std::string::npos) << text;
}

/// The join timeout is independent of the deadline for silent ranks.
TEST(JoinTimeout, IsIndependentOfDeadline) {
  const Place place;
  Process one = place.start(1, 2, {.deadline = {0.1}});
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  Process zero = place.start(0, 2, {.deadline = {0.1}});
  for (Process* rank : {&zero, &one}) {
    const std::string text = rank->result();
    EXPECT_EQ(text.find("connect"), std::string::npos) << text;
    EXPECT_EQ(text.find("join"), std::string::npos) << text;
  }
}

TEST(JoinTimeout, MustBePositive) {
  expect_error(ErrorKind::Usage, {"a join_timeout of 0 s"},
               [] { run_threads(2, [](World&) {}, {.join_timeout = {0.0}}); });
}

}  // namespace
}  // namespace trireme
