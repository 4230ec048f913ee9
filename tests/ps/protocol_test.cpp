#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "ps/protocol/bytes.h"
#include "ps/protocol/client.h"
#include "ps/protocol/clocks.h"
#include "ps/protocol/coordinator.h"
#include "ps/protocol/ring.h"
#include "ps/wire/frame.h"
#include "trireme/ps_update.h"

namespace trireme::ps {
namespace {

TEST(ShardRange, PartitionsKeysExactly) {
  for (const Key keys : {Key{1}, Key{7}, Key{64}, Key{1000}, Key{1} << 60}) {
    for (const std::uint32_t shards : {1U, 3U, 64U}) {
      Key end = 0;
      for (std::uint32_t s = 0; s < shards; ++s) {
        const KeyRange range = shard_range(keys, static_cast<ShardId>(s), shards);
        EXPECT_EQ(range.begin, end);
        end = range.end;
        if (range.size() > 0) {
          EXPECT_EQ(shard_of(keys, range.begin, shards), static_cast<ShardId>(s));
          EXPECT_EQ(shard_of(keys, range.end - 1, shards), static_cast<ShardId>(s));
        }
        EXPECT_LE(range.size(), keys / shards + 1);
      }
      EXPECT_EQ(end, keys);
    }
  }
}

TEST(Ring, MovesFewShardsWhenServerLeaves) {
  std::vector<NodeId> servers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    servers.push_back(server_node(i));
  }
  constexpr int kShards = 512;
  const Ring before(servers, {.shards = kShards, .replicas = 2});
  servers.pop_back();
  const Ring after(servers, {.shards = kShards, .replicas = 2});
  int moved = 0;
  for (int s = 0; s < kShards; ++s) {
    const auto shard = static_cast<ShardId>(s);
    moved += after.chain(shard, 1) != before.chain(shard, 1) ? 1 : 0;
  }
  EXPECT_GE(moved, kShards / 8);  // those of the server that left
  EXPECT_LT(moved, kShards / 5);
}

TEST(Ring, BalancesLoadOverServers) {
  for (const std::uint64_t servers : {1U, 3U, 4U, 7U}) {
    std::vector<NodeId> nodes;
    for (std::uint64_t i = 0; i < servers; ++i) {
      nodes.push_back(server_node(i));
    }
    constexpr std::uint32_t kShards = 16;
    const Ring ring(nodes, {.shards = kShards, .replicas = 2});
    std::map<NodeId, std::size_t> heads;
    std::map<NodeId, std::size_t> replicas;
    for (std::uint32_t s = 0; s < kShards; ++s) {
      const std::vector<NodeId> chain = ring.chain(static_cast<ShardId>(s), 2);
      ++heads[chain[0]];
      for (const NodeId node : chain) {
        ++replicas[node];
      }
    }
    const std::size_t held = std::min<std::size_t>(servers, 2) * kShards;
    for (const NodeId node : nodes) {
      EXPECT_LE(heads[node], (kShards + servers - 1) / servers) << servers;
      EXPECT_LE(replicas[node], (held + servers - 1) / servers) << servers;
    }
  }
}

TEST(NodeId, NamesReactorsOfServer) {
  EXPECT_EQ(to_text(server_node(2)), "server 2");
  EXPECT_EQ(to_text(server_node(2, 1)), "server 2.1");
  const NodeId last = server_node(kMaxServerNumber, kMaxReactors - 1);
  EXPECT_TRUE(is_server(last));
  EXPECT_EQ(server_number(last), kMaxServerNumber);
  EXPECT_EQ(reactor_number(last), kMaxReactors - 1);
}

TEST(Ring, PutsReplicasOnDifferentProcessesAndUsesAllReactors) {
  std::vector<NodeId> nodes;
  for (std::uint64_t server = 0; server < 3; ++server) {
    for (std::uint64_t reactor = 0; reactor < 4; ++reactor) {
      nodes.push_back(server_node(server, reactor));
    }
  }
  constexpr int kShards = 1200;
  const Ring ring(nodes, {.shards = kShards, .replicas = 3});
  std::map<NodeId, int> heads;
  for (int s = 0; s < kShards; ++s) {
    const auto shard = static_cast<ShardId>(s);
    const std::vector<NodeId> chain = ring.chain(shard, 4);
    ASSERT_EQ(chain.size(), 3U) << "there are three processes";
    std::set<std::uint64_t> servers;
    for (const NodeId node : chain) {
      servers.insert(server_number(node));
      EXPECT_EQ(server_number(ring.node_of(server_number(node), shard).value()),
                server_number(node));
    }
    EXPECT_EQ(servers.size(), 3U);
    ++heads[chain[0]];
  }
  for (const NodeId node : nodes) {
    EXPECT_EQ(heads[node], kShards / 12) << to_text(node);
  }
  EXPECT_EQ(ring.node_of(3, ShardId{0}), std::nullopt);
}

// A has completed 0 iterations, B 4 and C 3; the bound is 3.
TEST(ClockRule, BlocksBUntilACompletesIteration) {
  const NodeId a = worker_node(1);
  const NodeId b = worker_node(2);
  const NodeId c = worker_node(3);
  ClockTable clocks;
  for (const NodeId worker : {a, b, c}) {
    EXPECT_EQ(clocks.join(worker, 0), 0);
  }
  clocks.advance(b, 4);
  clocks.advance(c, 3);
  EXPECT_FALSE(may_start(4, *clocks.slowest(), 3));
  EXPECT_TRUE(may_start(3, *clocks.slowest(), 3));
  clocks.advance(a, 1);
  EXPECT_TRUE(may_start(4, *clocks.slowest(), 3));
  clocks.leave(a);
  EXPECT_EQ(clocks.slowest(), 3);
  EXPECT_EQ(clocks.join(a, 1), 3) << "one who was given up continues at the slowest";
}

/// A coordinator of one shard on servers 0 and 1.
class TwoServers {
 public:
  TwoServers() {
    beat(0);
    beat(1);
    pass(kTiming.heartbeat);
  }
  void beat(std::uint64_t server) {
    const ServerBeat message{
        .incarnation = 7, .sent = now_, .address = "127.0.0.1:1", .shards = {}};
    coordinator_.handle({server_node(server), NodeId::Coordinator, message}, now_, out_);
  }
  /// A tick after this time.
  void pass(Micros time) {
    now_ += time;
    coordinator_.tick(now_, out_);
  }
  [[nodiscard]] std::size_t replicas() const { return coordinator_.shards()[0].view.chain.size(); }

  static constexpr Timing kTiming{};

 private:
  UpdateRegistry updates_;
  Micros now_ = 0;
  Outbox out_;
  Coordinator coordinator_{{.shards = 1, .replicas = 2, .min_servers = 2}, updates_, 0};
};

// On a busy machine the coordinator may run only now and then.
TEST(Coordinator, DetectsDeadServerWhenEveryTickIsLate) {
  TwoServers cluster;
  ASSERT_EQ(cluster.replicas(), 2U);
  for (int i = 0; i < 10; ++i) {
    cluster.pass(TwoServers::kTiming.lease * 3 / 4);
    cluster.beat(0);
  }
  EXPECT_EQ(cluster.replicas(), 1U) << "server 1 has been silent for 7 leases";
}

TEST(Coordinator, DoesNotMistakeItsOwnPauseForSilence) {
  TwoServers cluster;
  for (int i = 0; i < 10; ++i) {
    cluster.pass(10 * TwoServers::kTiming.lease);  // heartbeats wait to be read
    cluster.beat(0);
    cluster.beat(1);
  }
  EXPECT_EQ(cluster.replicas(), 2U);
}

/// A coordinator and servers that do at once what it wants.
class ObedientServers {
 public:
  static constexpr std::uint64_t kReactors = 3;
  explicit ObedientServers(const CoordinatorOptions& options)
      : coordinator_(options, updates_, 0) {}

  void beat(std::uint64_t server, std::uint64_t reactor) {
    const NodeId node = server_node(server, reactor);
    ServerBeat message{.incarnation = 7,
                       .sent = now_,
                       .address = "127.0.0.1:1",
                       .reactors = kReactors,
                       .shards = {}};
    for (std::size_t i = 0; i < coordinator_.shards().size(); ++i) {
      const View& view = coordinator_.shards()[i].view;
      const bool learns = view.learner && view.learner->server == node;
      message.shards.push_back({static_cast<ShardId>(i), view.epoch,
                                learns                  ? Progress::CaughtUp
                                : view.has_member(node) ? Progress::Synced
                                                        : Progress::Behind});
    }
    coordinator_.handle({node, NodeId::Coordinator, message}, now_, out_);
  }
  /// A tick after all reactors of these servers were heard.
  void pass(std::uint64_t servers) {
    for (std::uint64_t server = 0; server < servers; ++server) {
      for (std::uint64_t reactor = 0; reactor < kReactors; ++reactor) {
        beat(server, reactor);
      }
    }
    tick();
  }
  void tick() {
    now_ += 5'000;
    coordinator_.tick(now_, out_);
    out_.clear();
  }
  void move(const MoveShard& request) {
    coordinator_.handle({worker_node(1), NodeId::Coordinator, request}, now_, out_);
  }
  [[nodiscard]] const std::vector<ShardRecord>& shards() const { return coordinator_.shards(); }
  [[nodiscard]] bool is_healthy() const { return coordinator_.is_healthy(); }

 private:
  UpdateRegistry updates_;
  Micros now_ = 0;
  Outbox out_;
  Coordinator coordinator_;
};

TEST(Coordinator, WaitsForAllReactorsOfServer) {
  ObedientServers servers({.shards = 4, .replicas = 1});
  servers.beat(0, 0);
  servers.beat(0, 2);
  servers.tick();
  EXPECT_EQ(servers.shards()[0].view.epoch, 0U);
  servers.beat(0, 1);
  servers.tick();
  EXPECT_EQ(servers.shards()[0].view.epoch, 1U);
}

TEST(Coordinator, HasNoSecondReplicaInSingleProcess) {
  ObedientServers servers({.shards = 4, .replicas = 2});
  servers.pass(1);
  EXPECT_TRUE(servers.is_healthy());
  for (const ShardRecord& record : servers.shards()) {
    EXPECT_EQ(record.view.chain.size(), 1U);
  }
  for (int i = 0; i < 20; ++i) {
    servers.pass(2);
  }
  EXPECT_TRUE(servers.is_healthy());
  for (const ShardRecord& record : servers.shards()) {
    EXPECT_EQ(record.view.processes(), 2U);
  }
}

/// Shards move, also between the reactors of a process when one falls silent and returns. Only a death reduces the
/// number of processes that hold a shard.
TEST(Coordinator, MovesNeverReduceProcessesOfShard) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    constexpr std::uint64_t kProcesses = 4;
    ObedientServers servers(
        {.shards = 8, .replicas = 2, .min_servers = kProcesses, .max_transfers = 1});
    servers.pass(kProcesses);
    std::pair<std::uint64_t, std::uint64_t> silent;
    for (int step = 0; step < 1000; ++step) {
      if (step % 100 == 0) {
        silent = {random() % kProcesses, random() % ObedientServers::kReactors};
      }
      for (std::uint64_t node = 0; node < kProcesses * ObedientServers::kReactors; ++node) {
        const std::pair at(node / ObedientServers::kReactors, node % ObedientServers::kReactors);
        if (at != silent || step % 100 > 50) {
          servers.beat(at.first, at.second);
        }
      }
      if (random() % 4 == 0) {
        servers.move({static_cast<ShardId>(random() % 8), {random() % kProcesses}});
      }
      const std::vector<ShardRecord> before = servers.shards();
      servers.tick();
      for (std::size_t i = 0; i < before.size(); ++i) {
        const View& view = servers.shards()[i].view;
        const bool has_lost_silent =
            before[i].view.has_member(server_node(silent.first, silent.second)) &&
            !view.has_member(server_node(silent.first, silent.second));
        if (!has_lost_silent) {
          ASSERT_GE(view.processes(), std::min<std::size_t>(before[i].view.processes(), 2))
              << "seed " << seed << ", step " << step;
        }
      }
    }
  }
}

// A tail whose lease has just ended ignores a pull; pushes to the same shard are answered all the time.
TEST(Client, RetriesLostPullAlthoughItsPushesAreAnswered) {
  Client client({.id = worker_node(1)});
  Outbox out;
  ClusterState state;
  state.shard_count = 1;
  state.views.push_back(
      {ShardId{0}, View{.epoch = 1, .chain = {{server_node(0), 1}}, .learner = {}}});
  state.tables.push_back({TableId{0}, {.name = "w", .keys = 1}});
  client.handle({NodeId::Coordinator, worker_node(1), state}, 0, out);
  const Part part{ShardId{0}, {.begin = 0, .end = 1}, 0};
  out.clear();
  (void)client.pull(TableId{0}, part, 0, out);
  int pulls = 0;
  for (Micros now = 0; now < 5'000'000; now += 5'000) {
    (void)client.push(TableId{0}, part, Values::copy(std::vector<float>{1}), Reply::Acknowledge,
                      now, out);
    client.tick(now, out);
    for (const Envelope& envelope : std::exchange(out, {})) {
      pulls += std::holds_alternative<Pull>(envelope.message) ? 1 : 0;
      if (const auto* push = std::get_if<Push>(&envelope.message)) {
        const PushDone done{ShardId{0}, 1, push->sequence, {}};
        client.handle({server_node(0), worker_node(1), done}, now, out);
      }
    }
  }
  EXPECT_GE(pulls, 3) << "once, and again";
}

TEST(Frame, RoundTripsMessage) {
  const std::vector<float> floats{1, 2, 3, 4};
  const Push push{.shard = ShardId{3},
                  .epoch = 7,
                  .worker = worker_node(9),
                  .sequence = 11,
                  .table = TableId{1},
                  .reply = Reply::Values,
                  .keys = {.list = {4, 8}},
                  .values = Values::borrow(floats)};
  const Encoded encoded = encode(Forward{42, push});
  const Message message = decode(encoded.kind, encoded.fields, encoded.floats);
  const auto& forward = std::get<Forward>(message);
  EXPECT_EQ(forward.index, 42U);
  EXPECT_EQ(forward.push.sequence, 11U);
  EXPECT_EQ(forward.push.keys, push.keys);
  EXPECT_EQ(forward.push.values.view()[3], 4);
}

TEST(Frame, RejectsEveryDamagedBitOfHeader) {
  const HeaderBytes good = to_bytes({.kind = 2, .field_bytes = 100, .floats = 8, .number = 5});
  EXPECT_EQ(parse_header(good, 5).floats, 8U);
  EXPECT_THROW((void)parse_header(good, 6), Error);
  for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    HeaderBytes bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW((void)parse_header(bad, 5), Error) << bit;
  }
}

TEST(Frame, RejectsEveryTruncatedMessage) {
  ClusterState state{.shard_count = 2,
                     .views = {{ShardId{1}, View{3, {{server_node(0), 5}}, {}}}},
                     .tables = {},
                     .servers = {}};
  const Encoded encoded = encode(state);
  for (std::size_t size = 0; size < encoded.fields.size(); ++size) {
    EXPECT_THROW((void)decode(encoded.kind, encoded.fields.substr(0, size), {}), Error) << size;
  }
  EXPECT_THROW((void)decode(encoded.kind, encoded.fields + "x", {}), Error);
}

TEST(UpdateRule, MatchesItsFormula) {
  const UpdateRegistry updates;
  const auto step = [&](std::string_view name, std::vector<float> parameters, float w, float g) {
    const auto update = updates.make(name, parameters);
    std::vector<float> values{w};
    std::vector<float> state(update->state_per_key(1));
    const std::vector<float> gradient{g};
    for (int i = 0; i < 2; ++i) {
      update->apply({.width = 1, .values = values, .state = state, .gradient = gradient});
    }
    return values[0];
  };
  EXPECT_FLOAT_EQ(step("add", {}, 1, 2), 5);
  EXPECT_FLOAT_EQ(step("max", {}, 1, 2), 2);
  EXPECT_FLOAT_EQ(step("sgd", {0.5F}, 1, 2), -1);
  EXPECT_FLOAT_EQ(step("momentum", {0.5F, 0.5F}, 1, 2), 1 - 0.5F * 2 - 0.5F * 3);
  EXPECT_FLOAT_EQ(step("adagrad", {0.5F, 0}, 1, 2), 1 - 0.5F - 0.5F / std::sqrt(2.0F));
  // A step of the rate each time.
  EXPECT_NEAR(step("adamw", {0.5F, 0.9F, 0.999F, 0, 0}, 1, 2), 0, 1e-4);
  EXPECT_FLOAT_EQ(step("l1", {0.5F, 1}, 1, 0.25F),
                  0);  // 1 - .125 - .5 = .375, then below the threshold
  EXPECT_THROW((void)updates.make("sgd", {}), Error);
  EXPECT_THROW((void)updates.make("sdg", std::vector<float>{1}), Error);
}

}  // namespace
}  // namespace trireme::ps
