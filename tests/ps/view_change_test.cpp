// What servers and the coordinator do while a shard's view changes, message by message.
#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "ps/protocol/coordinator.h"
#include "ps/protocol/server.h"
#include "trireme/ps_update.h"

namespace trireme::ps {
namespace {

constexpr ShardId kShard{0};
constexpr Incarnation kIncarnation = 7;

/// A server that holds the only shard alone, and what it sends to worker 1.
class LoneServer {
 public:
  void set_time(Micros now) { now_ = now; }
  void adopt(Epoch epoch) {
    ClusterState state{
        .shard_count = 1,
        .views = {{kShard,
                   View{.epoch = epoch, .chain = {{server_node(0), kIncarnation}}, .learner = {}}}},
        .tables = {{TableId{0}, {.name = "w", .keys = 1}}},
        .servers = {}};
    handle(NodeId::Coordinator, std::move(state));
  }
  void push(Epoch epoch, Sequence sequence, Reply reply = Reply::Acknowledge) {
    const std::vector<float> one{1};  // gone after the call, as a received message is
    handle(worker_node(1), Push{.shard = kShard,
                                .epoch = epoch,
                                .worker = worker_node(1),
                                .sequence = sequence,
                                .table = TableId{0},
                                .reply = reply,
                                .keys = {.begin = 0, .end = 1},
                                .values = Values::borrow(one)});
  }
  [[nodiscard]] std::vector<float> returned_values() const {
    std::vector<float> values;
    for (const Envelope& envelope : out_) {
      if (const auto* done = std::get_if<PushDone>(&envelope.message);
          done && done->values.size()) {
        values.push_back(done->values.view()[0]);
      }
    }
    return values;
  }
  [[nodiscard]] std::vector<Sequence> acknowledged() {
    std::vector<Sequence> sequences;
    for (const Envelope& envelope : std::exchange(out_, {})) {
      if (const auto* done = std::get_if<PushDone>(&envelope.message)) {
        sequences.push_back(done->sequence);
      }
    }
    return sequences;
  }

  void pull(std::uint64_t request) {
    handle(worker_node(1), Pull{.shard = kShard,
                                .epoch = 1,
                                .worker = worker_node(1),
                                .request = request,
                                .table = TableId{0},
                                .keys = {.begin = 0, .end = 1}});
  }
  /// The requests that were answered since.
  [[nodiscard]] std::vector<std::uint64_t> answered() {
    std::vector<std::uint64_t> requests;
    for (const Envelope& envelope : std::exchange(out_, {})) {
      if (const auto* done = std::get_if<PullDone>(&envelope.message)) {
        requests.push_back(done->request);
      }
    }
    return requests;
  }
  /// Whether it sends a heartbeat now.
  [[nodiscard]] bool beats() {
    Outbox out;
    server_.tick(now_, out);
    return std::ranges::any_of(out, [](const Envelope& envelope) {
      return std::holds_alternative<ServerBeat>(envelope.message);
    });
  }
  void answer_beat(Micros sent) {
    handle(NodeId::Coordinator, ServerBeatDone{kIncarnation, sent, false});
  }

 private:
  void handle(NodeId from, Message message) {
    server_.handle({from, server_node(0), std::move(message)}, now_, out_);
  }

  UpdateRegistry updates_;
  Server server_{{.id = server_node(0), .incarnation = kIncarnation}, updates_};
  Outbox out_;
  Micros now_ = 0;
};

/// Long after every lease that a heartbeat of the tests could renew.
constexpr Micros kLate = 1'000'000'000;

TEST(Server, AnswersPullWithoutLeaseWhenLaterHeartbeatIsAnswered) {
  LoneServer server;
  server.adopt(1);
  EXPECT_TRUE(server.beats());
  server.set_time(1);
  server.pull(7);
  EXPECT_TRUE(server.answered().empty());
  server.set_time(2);
  EXPECT_TRUE(server.beats()) << "a pull that waits must not wait for the next heartbeat";
  server.set_time(3);
  server.pull(8);
  server.set_time(kLate);
  server.answer_beat(2);
  EXPECT_EQ(server.answered(), (std::vector<std::uint64_t>{7}));
  server.answer_beat(4);
  EXPECT_EQ(server.answered(), (std::vector<std::uint64_t>{8}));
}

TEST(Server, AnswersAllWaitingPullsWhenItGetsLease) {
  LoneServer server;
  server.adopt(1);
  server.set_time(10);
  server.pull(7);
  server.pull(7);  // repeated
  server.set_time(11);
  server.pull(8);
  server.set_time(20);
  server.answer_beat(5);
  EXPECT_EQ(server.answered(), (std::vector<std::uint64_t>{7, 8}));
  server.pull(9);
  EXPECT_EQ(server.answered(), (std::vector<std::uint64_t>{9}));
}

TEST(Server, ForgetsWaitingPullsWhenViewChanges) {
  LoneServer server;
  server.adopt(1);
  server.set_time(1);
  server.pull(7);
  server.adopt(2);
  server.set_time(kLate);
  server.answer_beat(2);
  EXPECT_TRUE(server.answered().empty()) << "a server between the two views may have been the tail";
}

TEST(Server, AnswersPushesThatArriveBeforeTheirView) {
  LoneServer server;
  server.adopt(1);
  server.push(2, 1);
  server.push(2, 2);
  server.push(4, 3);
  EXPECT_TRUE(server.acknowledged().empty());
  server.adopt(2);
  EXPECT_EQ(server.acknowledged(), (std::vector<Sequence>{1, 2}));
  server.adopt(4);
  EXPECT_EQ(server.acknowledged(), (std::vector<Sequence>{3}));
  server.push(4, 3);  // repeated, and not applied again
  EXPECT_EQ(server.acknowledged(), (std::vector<Sequence>{3}));
}

TEST(Server, ReturnsOwnSumToEachEarlyPush) {
  LoneServer server;
  server.adopt(1);
  server.push(2, 1, Reply::Values);
  server.push(2, 2, Reply::Values);
  server.adopt(2);
  EXPECT_EQ(server.returned_values(), (std::vector<float>{1, 2}));
}

/// A coordinator of one shard on two of three servers, which report what the test says.
class ThreeServers {
 public:
  ThreeServers() {
    beat_all();
    tick();
  }
  [[nodiscard]] const ShardRecord& shard() const { return coordinator_.shards()[0]; }
  void beat(NodeId server) {
    const View& view = shard().view;
    const bool learns = view.learner && view.learner->server == server;
    const Progress progress = learns ? Progress::CaughtUp : Progress::Synced;
    ServerBeat message{.incarnation = kIncarnation,
                       .sent = now_,
                       .address = "127.0.0.1:1",
                       .shards = {{kShard, view.epoch, progress}}};
    coordinator_.handle({server, NodeId::Coordinator, std::move(message)}, now_, out_);
  }
  void beat_all() {
    for (std::uint64_t server = 0; server < 3; ++server) {
      beat(server_node(server));
    }
  }
  /// Whom the tick sends the shard's view.
  std::vector<NodeId> tick() {
    out_.clear();
    coordinator_.tick(now_ += 5'000, out_);
    std::vector<NodeId> informed;
    for (const Envelope& envelope : out_) {
      if (std::holds_alternative<ClusterState>(envelope.message)) {
        informed.push_back(envelope.to);
      }
    }
    return informed;
  }
  void move(const std::vector<NodeId>& to) {
    MoveShard request{kShard, {}};
    for (const NodeId server : to) {
      request.servers.push_back(server_number(server));
    }
    coordinator_.handle({worker_node(1), NodeId::Coordinator, request}, now_, out_);
  }

 private:
  UpdateRegistry updates_;
  Micros now_ = 0;
  Outbox out_;
  Coordinator coordinator_{{.shards = 1, .replicas = 2, .min_servers = 3}, updates_, 0};
};

std::vector<NodeId> servers_in(const View& view) {
  std::vector<NodeId> servers;
  for (const Member& member : view.chain) {
    servers.push_back(member.server);
  }
  return servers;
}

TEST(Coordinator, AnnouncesViewAsSoonAsDeposedTailKnowsIt) {
  ThreeServers cluster;
  const std::vector<NodeId> first = servers_in(cluster.shard().view);
  ASSERT_EQ(first.size(), 2U);
  NodeId third = server_node(0);
  while (std::ranges::find(first, third) != first.end()) {
    third = server_node(server_number(third) + 1);
  }
  cluster.move({first[0], third});
  while (cluster.shard().view.chain.size() < 3) {
    cluster.beat_all();
    (void)cluster.tick();
  }
  cluster.move(first);  // back, which removes the new tail
  cluster.beat_all();
  EXPECT_EQ(cluster.tick(), std::vector<NodeId>{third});
  ASSERT_TRUE(cluster.shard().deposed);
  cluster.beat(third);
  const std::vector<NodeId> informed = cluster.tick();
  for (const NodeId member : first) {
    EXPECT_NE(std::ranges::find(informed, member), informed.end()) << to_text(member);
  }
}

}  // namespace
}  // namespace trireme::ps
