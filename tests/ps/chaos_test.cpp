// Real processes, killed and paused. Leases are long, because test machines are loaded; `trireme ps chaos` measures with
// short ones.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "ps/process_cluster.h"
#include "ps/tools/chaos_tables.h"
#include "ps/tools/chaos_tally.h"
#include "temporary_folder.h"
#include "trireme/error.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {
namespace {

void survive(const ChaosOptions& options) {
  const ChaosResult result = run_chaos(options);
  EXPECT_GE(result.kills, options.kills);
  EXPECT_GE(result.acknowledged, options.pushes);
  EXPECT_GT(result.pauses, 0U);
  EXPECT_GT(result.moves, 0U);
  for (std::size_t role = 0; role < kChaosRoles; ++role) {
    const bool exists = role != static_cast<std::size_t>(ChaosRole::Middle) || options.replicas > 2;
    if (exists && options.kills >= 50) {
      EXPECT_GT(result.kills_by_role.at(role), 0U) << to_text(static_cast<ChaosRole>(role));
      EXPECT_GT(result.pauses_by_role.at(role), 0U) << to_text(static_cast<ChaosRole>(role));
    }
  }
  EXPECT_EQ(
      std::accumulate(result.kills_by_role.begin(), result.kills_by_role.end(), std::size_t{0}),
      result.kills);
  EXPECT_GT(result.restarts, 0U);
  EXPECT_GT(result.faults_in_moves, 0U);
  EXPECT_GT(result.faults_in_rejoins, 0U);
  EXPECT_GT(result.delaying_kills, 0U);
  EXPECT_GE(result.failover_p50.count, 0.02);
  EXPECT_LE(result.failover_p50.count, result.failover_p99.count);
  EXPECT_GT(result.acknowledged, 0U);
  EXPECT_EQ(result.lost, 0U);
  EXPECT_EQ(result.doubled, 0U);
  EXPECT_GT(result.reads, options.reads);
  EXPECT_EQ(result.violations, 0U);
}

TEST(Chaos, FiftyKillsLoseAndDuplicateNothing) {
  const TemporaryFolder folder;
  survive({.seed = 1,
           .kills = 50,
           .lease = {0.5},
           .program = TRIREME_PROGRAM,
           .folder = folder.path()});
}

// All reactors of a process die together.
void survive_with_two_reactors(std::size_t kills) {
  const TemporaryFolder folder;
  survive({.seed = 5,
           .reactors = 2,
           .replicas = 2,
           .kills = kills,
           .lease = {0.5},
           .program = TRIREME_PROGRAM,
           .folder = folder.path()});
}

TEST(Chaos, KillsWithTwoReactorsLoseAndDuplicateNothing) {
  survive_with_two_reactors(25);
}
TEST(LongChaos, KillsWithTwoReactorsLoseAndDuplicateNothing) {
  survive_with_two_reactors(100);
}

TEST(LongChaos, ThousandKillsAndTenMillionPushesLoseAndDuplicateNothing) {
  const TemporaryFolder folder;
  survive({.seed = 2,
           .kills = 1000,
           .pushes = 10'000'000,
           .reads = 1'000'000,
           .lease = {0.3},
           .program = TRIREME_PROGRAM,
           .folder = folder.path()});
}

bool has_line_with(const std::string& file, const std::string& words) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(words) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// The memory has no name, so nothing is left of it, whoever dies how.
TEST(SharedMemory, IsReleasedWhenServerIsKilled) {
  const std::string name = "memfd:trireme-ps";
  {
    ProcessCluster cluster(ProcessCluster::free_address(), {.servers = 1, .replicas = 1});
    ParameterClient client(cluster.client_options());
    const TableHandle table = client.create_table({.name = "w", .keys = 1, .width = 1});
    std::vector<float> value(1);
    client.push_pull(table, Keys::range(0, 1), std::vector<float>{1}, value).wait();
    EXPECT_EQ(value[0], 1);
    EXPECT_TRUE(has_line_with("/proc/self/maps", name)) << "it is not used";
    cluster.kill_all();
  }
  EXPECT_FALSE(has_line_with("/proc/self/maps", name));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(entry.path().string().find("trireme-ps"), std::string::npos);
  }
}

TEST(ChaosTally, CountsLostDuplicatedAndStale) {
  const TemporaryFolder folder;
  Ledgers ledgers;
  for (std::size_t life = 1; life <= 3; ++life) {
    ledgers.push_back(std::make_unique<SharedRecord<LifeLedger>>(ledger_file(folder.path(), life)));
  }
  const SharedRecord<LifeLedger>& first = *ledgers[0];
  std::vector<float> counts(kChaosKeys * kMaxChaosLives);
  const auto push = [&](Key key, std::uint64_t begun, std::uint64_t acknowledged, float count) {
    first->begun.at(key) = begun;
    first->acknowledged.at(key) = acknowledged;
    counts[chaos_key(key, 1)] = count;
  };
  push(0, 5, 5, 5);
  push(1, 5, 4, 5);  // killed between the push and its acknowledgement, and it was applied
  push(2, 5, 4, 4);  // or was not
  push(3, 5, 5, 3);  // two are lost
  push(4, 5, 5, 6);  // one is doubled
  ChaosResult result;
  tally_counts(*ledgers[0], 1, counts, result);
  EXPECT_EQ(result.acknowledged, 23U);
  EXPECT_EQ(result.lost, 2U);
  EXPECT_EQ(result.doubled, 1U);

  first->saw_stale.at(2) = true;
  first->saw_stale.at(3) = true;
  (*ledgers[2])->has_left_clock = true;  // was killed: nothing is demanded of it
  tally_staleness(ledgers, result);
  EXPECT_EQ(result.violations, 1U);
}

// Shard 0 stands still from the kill at 1 s on, for 300 ms; shard 1 does not notice it.
TEST(ChaosTally, ComparesThroughputOfShardsBeforeAndAfterKill) {
  ShardWindows windows{.begin = 0, .counts = {{}, {}}};
  for (std::size_t window = 0; window < 40; ++window) {
    windows.counts[0].push_back(window >= 20 && window < 26 ? 0 : 25);
    windows.counts[1].push_back(window == 21 ? 20 : 25);
  }
  EXPECT_DOUBLE_EQ(windows.per_window(0, 500'000, 1'000'000), 25);
  EXPECT_DOUBLE_EQ(windows.per_window(1, 1'000'000, 1'100'000), 22.5);
  const std::vector<Strike> strikes{{Strike::Kind::MoveShard, 500'000},
                                    {Strike::Kind::KillServer, 1'000'000, {true, false}}};
  ChaosResult result;
  tally_throughput(windows, strikes, {0.2}, result);
  ASSERT_TRUE(result.touched_loss && result.untouched_loss);
  EXPECT_DOUBLE_EQ(*result.touched_loss, 1);
  EXPECT_NEAR(*result.untouched_loss, 5.0 / 150, 1e-12);
}

TEST(ChaosTally, AttributesDelayToLastFaultBeforeItsEnd) {
  const TemporaryFolder folder;
  Ledgers ledgers;
  ledgers.push_back(std::make_unique<SharedRecord<LifeLedger>>(ledger_file(folder.path(), 1)));
  (*ledgers[0])->slow.at(0) = {900'000, 1'300'000};    // of the kill at 1 s
  (*ledgers[0])->slow.at(1) = {1'900'000, 2'050'000};  // of the move at 2 s
  (*ledgers[0])->slow.at(2) = {9'000'000, 9'900'000};  // of nothing that is known
  (*ledgers[0])->slow_count = 3;
  const std::vector<Strike> strikes{{Strike::Kind::KillServer, 1'000'000},
                                    {Strike::Kind::MoveShard, 2'000'000},
                                    {Strike::Kind::KillServer, 5'000'000}};  // delayed nothing
  ChaosResult result;
  tally_times(ledgers, strikes, {0.1}, result);
  EXPECT_EQ(result.delaying_kills, 1U);
  EXPECT_DOUBLE_EQ(result.failover_p50.count, 0.4);
  EXPECT_DOUBLE_EQ(result.move_p99.count, 0.15);
}

TEST(Chaos, RejectsUnrecoverableCluster) {
  EXPECT_THROW((void)run_chaos({.servers = 2, .replicas = 2, .program = {}, .folder = {}}), Error);
}

}  // namespace
}  // namespace trireme::ps
