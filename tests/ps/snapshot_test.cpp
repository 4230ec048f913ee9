// Snapshots of real clusters, restored into clusters of other sizes.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "ps/host/snapshot_files.h"
#include "ps/process_cluster.h"
#include "ps/raw_worker.h"
#include "temporary_folder.h"
#include "trireme/files.h"

namespace trireme::ps {
namespace {

constexpr Key kDenseKeys = 40;
constexpr std::size_t kDenseWidth = 3;
const TableSpec kDense{.name = "dense", .keys = kDenseKeys, .width = kDenseWidth};
const TableSpec kMomentum{
    .name = "momentum", .keys = 8, .width = 1, .update = "momentum", .parameters = {0.5F, 0.5F}};
const TableSpec kSparse{
    .name = "sparse", .keys = Key{1} << 50, .width = 2, .layout = TableLayout::Sparse};
const std::vector<Key> kSparseKeys{3, Key{1} << 30, (Key{1} << 50) - 1};

void sleep_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

std::uint64_t last_complete(const std::string& folder) {
  try {
    return open_snapshot(folder).manifest.number;
  } catch (const Error&) {
    return 0;  // there is none yet, or it was just replaced
  }
}

/// The one in progress may have begun before; the one after it begins from now on.
void wait_for_snapshot(const std::string& folder) {
  const std::uint64_t before = last_snapshot_number(folder);
  for (int i = 0; i < 2400 && last_complete(folder) <= before; ++i) {
    sleep_a_little();
  }
  ASSERT_GT(last_complete(folder), before) << "no snapshot was completed";
}

void push_everything(ParameterClient& client) {
  std::vector<float> numbers(kDenseKeys * kDenseWidth);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  const TableHandle dense = client.create_table(kDense);
  client.push(dense, Keys::range(0, kDenseKeys), numbers).wait();
  client.push(dense, Keys::range(0, kDenseKeys), numbers).wait();
  const std::vector<float> ones(8, 1.0F);
  client.push(client.create_table(kMomentum), Keys::range(0, 8), ones).wait();
  const std::vector<float> pairs{1, 2, 3, 4, 5, 6};
  client.push(client.create_table(kSparse), Keys::list(kSparseKeys), pairs).wait();
}

/// `extra`: what was added to key 0 of the dense table.
void expect_everything(ParameterClient& client, float extra) {
  std::vector<float> values(kDenseKeys * kDenseWidth);
  client.pull(client.create_table(kDense), Keys::range(0, kDenseKeys), values).wait();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], 2 * static_cast<float>(i + 1) + (i < kDenseWidth ? extra : 0)) << i;
  }
  std::vector<float> pairs(6);
  client.pull(client.create_table(kSparse), Keys::list(kSparseKeys), pairs).wait();
  EXPECT_EQ(pairs, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

/// A second push of ones moves by rate * (momentum * 1 + 1) if the momentum of the first is still there.
void expect_momentum(ParameterClient& client) {
  const TableHandle table = client.create_table(kMomentum);
  const std::vector<float> ones(8, 1.0F);
  std::vector<float> before(8);
  std::vector<float> after(8);
  client.pull(table, Keys::range(0, 8), before).wait();
  client.push_pull(table, Keys::range(0, 8), ones, after).wait();
  EXPECT_EQ(before, std::vector<float>(8, -0.5F));
  EXPECT_EQ(after, std::vector<float>(8, -1.25F));
}

Push hundred_to_key_0(Sequence sequence) {
  static const std::vector<float> hundreds(kDenseWidth, 100.0F);
  return {.shard = ShardId{0},
          .sequence = sequence,
          .table = TableId{0},
          .keys = {.begin = 0, .end = 1},
          .values = Values::borrow(hundreds)};
}

/// Pushes to a cluster of three servers, stores a snapshot and kills them all.
void store_and_kill(const std::string& address, const std::string& folder) {
  ProcessCluster cluster(address, {.servers = 3, .reactors = 2, .replicas = 2, .snapshot = folder});
  ParameterClient client(cluster.client_options());
  push_everything(client);
  RawWorker worker(address, 7);
  worker.push(hundred_to_key_0(1));
  wait_for_snapshot(folder);
  cluster.kill_all();
}

void expect_restored(const std::string& folder, std::size_t servers, std::size_t replicas,
                     std::size_t reactors) {
  const std::string address = ProcessCluster::free_address();
  const ProcessCluster cluster(
      address, {.servers = servers, .reactors = reactors, .replicas = replicas, .restore = folder});
  ParameterClient client(cluster.client_options());
  expect_everything(client, 100);
  RawWorker worker(address, 7);
  worker.push(hundred_to_key_0(1));  // a retry of what the snapshot contains
  expect_everything(client, 100);
  worker.push(hundred_to_key_0(2));
  expect_everything(client, 200);
  expect_momentum(client);
  const ClusterStatus status = client.status();
  ASSERT_EQ(status.shards.size(), 6U);
  EXPECT_TRUE(std::ranges::all_of(
      status.shards, [&](const ShardPlace& shard) { return shard.chain.size() == replicas; }));
}

TEST(Snapshot, RestoresIntoFewerAndMoreServersWithSequenceNumbers) {
  const TemporaryFolder folder;
  store_and_kill(ProcessCluster::free_address(), folder.path());
  expect_restored(folder.path(), 2, 1, 1);
  expect_restored(folder.path(), 5, 3, 1);
  expect_restored(folder.path(), 2, 2, 3);
}

TEST(Snapshot, LetsWorkerThatSurvivedClusterContinue) {
  const TemporaryFolder folder;
  const std::string address = ProcessCluster::free_address();
  auto cluster = std::make_unique<ProcessCluster>(
      address, ProcessCluster::Options{.servers = 2, .snapshot = folder.path()});
  ParameterClient client(cluster->client_options());
  push_everything(client);
  wait_for_snapshot(folder.path());
  cluster->kill_all();
  cluster = std::make_unique<ProcessCluster>(
      address, ProcessCluster::Options{.servers = 3, .restore = folder.path()});
  expect_everything(client, 0);
  expect_momentum(client);
}

// --- Damage. The library reads what the processes would.

StoredSnapshot store_empty(const std::string& folder, std::uint64_t number) {
  begin_snapshot(folder, number);
  SnapshotManifest manifest{.number = number, .epoch = 1, .tables = {}, .clocks = {}, .parts = {}};
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    const std::string state(24, '\0');  // nothing applied, no workers, no tables
    manifest.parts.push_back(
        write_snapshot_part(folder, {number, static_cast<ShardId>(shard), 0, state}));
  }
  finish_snapshot(folder, manifest);
  return open_snapshot(folder);
}

std::string file_of(const StoredSnapshot& snapshot, const std::string& prefix) {
  for (const auto& entry : std::filesystem::directory_iterator(snapshot.path)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      return entry.path().string();
    }
  }
  return {};
}

void restore(const std::string& folder) {
  const ParameterCoordinator coordinator({.secret = kTestSecret, .snapshots = {.restore = folder}});
}

TEST(Snapshot, NamesDamagedFile) {
  for (const std::string prefix : {"shard-1", "manifest"}) {
    const TemporaryFolder folder;
    const std::string file = file_of(store_empty(folder.path(), 1), prefix);
    const std::string whole = read_file(file);
    restore(folder.path());
    for (std::size_t at = 0; at < whole.size(); at += 5) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      write_file(file, damaged);
      expect_error(ErrorKind::Input, file, [&] { restore(folder.path()); });
      write_file(file, whole.substr(0, at));
      expect_error(ErrorKind::Input, file, [&] { restore(folder.path()); });
    }
  }
}

TEST(Snapshot, NamesMissingShardAndMissingSnapshot) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::Usage, "has no complete snapshot", [&] { restore(folder.path()); });
  const StoredSnapshot snapshot = store_empty(folder.path(), 1);
  std::filesystem::remove(file_of(snapshot, "shard-0"));
  expect_error(ErrorKind::Input, "it is missing", [&] { restore(folder.path()); });
}

TEST(Snapshot, KeepsLastTwoAndIgnoresIncompleteOnes) {
  const TemporaryFolder folder;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(store_empty(folder.path(), number).manifest.number, number);
  }
  begin_snapshot(folder.path(), 5);
  EXPECT_EQ(open_snapshot(folder.path()).manifest.number, 4U);
  EXPECT_EQ(last_snapshot_number(folder.path()), 5U);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/snapshot-000003/manifest"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/snapshot-000002"));
  EXPECT_EQ(open_snapshot(folder.path() + "/snapshot-000003").manifest.number, 3U);
}

TEST(Snapshot, ServerWithoutSnapshotStopsInsteadOfStartingEmpty) {
  const TemporaryFolder folder;
  (void)store_empty(folder.path(), 1);
  const ParameterCoordinator coordinator({.secret = kTestSecret,
                                          .lease = kTestLease,
                                          .replicas = 1,
                                          .snapshots = {.restore = folder.path()}});
  std::string why;
  std::atomic<bool> has_stopped = false;
  const ParameterServer server({.coordinator = coordinator.address(),
                                .secret = kTestSecret,
                                .lease = kTestLease,
                                .on_stopped = [&](const std::string& reason) {
                                  why = reason;
                                  has_stopped = true;
                                }});
  for (int i = 0; i < 2400 && !has_stopped; ++i) {
    sleep_a_little();
  }
  ASSERT_TRUE(has_stopped);
  EXPECT_NE(why.find("start it with the same snapshot"), std::string::npos) << why;
}

}  // namespace
}  // namespace trireme::ps
