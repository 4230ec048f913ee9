// What has no answer because a node was not ready for it, message by message: nobody may have to wait for a retry.
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "comm/net/socket.h"
#include "ps/net/reactor.h"
#include "ps/protocol/client.h"
#include "ps/protocol/server.h"
#include "trireme/ps_update.h"

namespace trireme::ps {
namespace {

constexpr ShardId kOnlyShard{0};
constexpr Incarnation kLife = 7;
const NodeId kWorker = worker_node(1);
const std::vector<TableEntry> kTables{{TableId{0}, {.name = "a", .keys = 1}},
                                      {TableId{1}, {.name = "b", .keys = 1}}};

/// Messages of one kind, of all that were sent since.
template <class M>
std::vector<M> take(Outbox& out) {
  std::vector<M> found;
  for (const Envelope& envelope : std::exchange(out, {})) {
    if (const M* const message = std::get_if<M>(&envelope.message)) {
      found.push_back(*message);
    }
  }
  return found;
}

ClusterState state(Epoch epoch, std::initializer_list<std::uint64_t> chain, std::size_t tables) {
  View view{.epoch = epoch, .chain = {}, .learner = {}};
  for (const std::uint64_t server : chain) {
    view.chain.push_back({server_node(server), kLife});
  }
  return {.shard_count = 1,
          .views = {{kOnlyShard, view}},
          .tables = {kTables.begin(), kTables.begin() + static_cast<std::ptrdiff_t>(tables)},
          .servers = {}};
}

/// Server 0 of a cluster with one shard.
class TestedServer {
 public:
  template <class M>
  void handle(NodeId from, M message) {
    server_.handle({from, server_node(0), std::move(message)}, 1, out_);
  }
  void push(Sequence sequence, TableId table = TableId{0}) {
    handle(kWorker, Push{.shard = kOnlyShard,
                         .epoch = 1,
                         .worker = kWorker,
                         .sequence = sequence,
                         .table = table,
                         .reply = Reply::Acknowledge,
                         .keys = {.begin = 0, .end = 1},
                         .values = Values::copy(std::vector<float>{1})});
  }
  [[nodiscard]] std::vector<Sequence> acknowledged() {
    std::vector<Sequence> sequences;
    for (const PushDone& done : take<PushDone>(out_)) {
      sequences.push_back(done.sequence);
    }
    return sequences;
  }
  template <class M>
  [[nodiscard]] std::vector<M> sent() {
    return take<M>(out_);
  }

 private:
  UpdateRegistry updates_;
  Server server_{{.id = server_node(0), .incarnation = kLife}, updates_};
  Outbox out_;
};

// The tail acknowledges, but cannot reach a worker that is still connecting to it. The worker repeats its push to the head
// when it has connected, perhaps before the head learns that the tail has the push.
TEST(Head, AcknowledgesPushThatWasRepeatedBeforeItsCommit) {
  TestedServer head;
  head.handle(NodeId::Coordinator, state(1, {0, 1}, 1));
  head.handle(server_node(1), Resume{kOnlyShard, 1, true, 0});
  head.push(1);
  head.push(2);
  head.push(1);
  EXPECT_TRUE(head.acknowledged().empty()) << "the tail does not have it";
  head.handle(server_node(1), Commit{kOnlyShard, 1, 1});
  EXPECT_EQ(head.acknowledged(), std::vector<Sequence>{1});
  head.handle(server_node(1), Commit{kOnlyShard, 1, 2});
  EXPECT_TRUE(head.acknowledged().empty()) << "it was not repeated: the tail's answer is enough";
}

TEST(Server, AnswersPushesThatArriveBeforeTheirTable) {
  TestedServer server;
  server.handle(NodeId::Coordinator, state(1, {0}, 1));
  server.push(1, TableId{1});
  server.push(2, TableId{0});  // must not overtake
  EXPECT_TRUE(server.acknowledged().empty());
  server.handle(NodeId::Coordinator, state(1, {0}, 2));
  EXPECT_EQ(server.acknowledged(), (std::vector<Sequence>{1, 2}));
}

TEST(Server, AppliesForwardThatArrivesBeforeItsTable) {
  TestedServer tail;
  tail.handle(NodeId::Coordinator, state(1, {1, 0}, 0));
  Push push{.shard = kOnlyShard,
            .epoch = 1,
            .worker = kWorker,
            .sequence = 1,
            .table = TableId{0},
            .reply = Reply::Acknowledge,
            .keys = {.begin = 0, .end = 1},
            .values = Values::copy(std::vector<float>{1})};
  tail.handle(server_node(1), Forward{1, push});
  EXPECT_TRUE(tail.acknowledged().empty());
  tail.handle(NodeId::Coordinator, state(1, {1, 0}, 1));
  EXPECT_EQ(tail.acknowledged(), std::vector<Sequence>{1});
}

TEST(Server, AnswersResumeThatArrivesBeforeItsFirstView) {
  TestedServer head;
  head.handle(server_node(1), Resume{kOnlyShard, 1, true, 0});
  head.handle(server_node(1), Resume{kOnlyShard, 1, true, 0});  // repeated
  EXPECT_TRUE(head.sent<SyncPoint>().empty());
  head.handle(NodeId::Coordinator, state(1, {0, 1}, 1));
  EXPECT_EQ(head.sent<SyncPoint>().size(), 1U);
}

TEST(Server, NamesEpochInWhichItDoesNotHoldShard) {
  TestedServer server;
  server.push(1);
  const std::vector<WrongView> refusals = server.sent<WrongView>();
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_EQ(refusals[0].view.epoch, 1U);
  EXPECT_TRUE(refusals[0].view.chain.empty());
}

/// A worker with one push in flight in epoch 2.
class TestedClient {
 public:
  TestedClient() {
    handle(state(2, {0}, 1));
    const Part part = client_.split(TableId{0}, {.begin = 0, .end = 1}).at(0);
    (void)client_.push(TableId{0}, part, Values::copy(std::vector<float>{1}), Reply::Acknowledge, 0,
                       out_);
  }
  template <class M>
  void handle(M message) {
    client_.handle({NodeId::Coordinator, kWorker, std::move(message)}, 1, out_);
  }
  void refuse(Epoch epoch) {
    handle(WrongView{kOnlyShard, View{.epoch = epoch, .chain = {}, .learner = {}}});
  }
  [[nodiscard]] std::size_t pushes() { return take<Push>(out_).size(); }

 private:
  Client client_{{.id = kWorker}};
  Outbox out_;
};

TEST(Client, RepeatsPushThatServerRefusedInNewestView) {
  TestedClient client;
  EXPECT_EQ(client.pushes(), 1U);
  client.refuse(2);
  EXPECT_EQ(client.pushes(), 0U) << "first it must know whether the view is the newest";
  client.handle(state(2, {0}, 1));
  EXPECT_EQ(client.pushes(), 1U);
  client.handle(state(2, {0}, 1));
  EXPECT_EQ(client.pushes(), 0U) << "once for each refusal";
}

TEST(Client, RepeatsNothingForRefusalOfFormerView) {
  TestedClient client;
  EXPECT_EQ(client.pushes(), 1U);
  client.refuse(1);
  client.handle(state(2, {0}, 1));
  EXPECT_EQ(client.pushes(), 0U);
}

/// One that counts its connections.
class TestedReactor {
 public:
  explicit TestedReactor(NodeId self, std::optional<comm::Address> listen = std::nullopt)
      : reactor_(
            {.self = self,
             .listen = std::move(listen),
             .secret = comm::Secret::from_text("a secret for the tests")},
            {.message = [](NodeId, Message&) {}, .connected = [this](NodeId) { ++connections_; }}) {
  }
  [[nodiscard]] Reactor& reactor() { return reactor_; }
  [[nodiscard]] int connections() const { return connections_; }
  void run() { reactor_.process(reactor_.wait(comm::deadline_in({0.002}))); }

 private:
  int connections_ = 0;
  Reactor reactor_;
};

/// Runs both until the worker has so many connections.
void run_until(TestedReactor& worker, int connections, TestedReactor& server) {
  const comm::Deadline deadline = comm::deadline_in({60});
  while (worker.connections() < connections && !comm::passed(deadline)) {
    worker.run();
    server.run();
  }
  EXPECT_EQ(worker.connections(), connections);
}

TEST(Reactor, ConnectsAtOnceToServerThatHasMoved) {
  TestedReactor worker(kWorker);
  const comm::Address closed = comm::listen_on().address;
  worker.reactor().set_address(server_node(0), comm::to_text(closed));
  worker.reactor().send(server_node(0), GetMetrics{});
  TestedReactor server(server_node(0), comm::Address{});
  worker.reactor().set_address(server_node(0), comm::to_text(server.reactor().address()));
  worker.reactor().connect(server_node(0));
  run_until(worker, 1, server);
}

TEST(Reactor, TriesAgainWhenServerCouldNotBeReached) {
  const comm::Address address = comm::listen_on().address;  // where nobody listens yet
  TestedReactor worker(kWorker);
  worker.reactor().set_address(server_node(0), comm::to_text(address));
  worker.reactor().send(server_node(0), GetMetrics{});
  TestedReactor server(server_node(0), address);
  run_until(worker, 1, server);
}

TEST(Reactor, ConnectsAgainWhenConnectionIsLost) {
  TestedReactor worker(kWorker);
  comm::Address address;
  {
    TestedReactor server(server_node(0), comm::Address{});
    address = server.reactor().address();
    worker.reactor().set_address(server_node(0), comm::to_text(address));
    worker.reactor().connect(server_node(0));
    run_until(worker, 1, server);
  }
  TestedReactor server(server_node(0), address);
  run_until(worker, 2, server);
  run_until(server, 1, worker);
}

}  // namespace
}  // namespace trireme::ps
