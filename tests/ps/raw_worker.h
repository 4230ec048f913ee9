// A worker that sends single messages of the protocol, under an identity that the test chooses.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "comm/net/deadline.h"
#include "ps/cluster.h"
#include "ps/net/reactor.h"
#include "trireme/error.h"

namespace trireme::ps {

class RawWorker {
 public:
  RawWorker(const std::string& coordinator, std::uint64_t number)
      : id_(worker_node(number)),
        reactor_({.self = id_, .secret = comm::Secret::from_text(kTestSecret)},
                 {.message = [this](NodeId, Message& message) { last_ = std::move(message); }}) {
    reactor_.set_address(NodeId::Coordinator, coordinator);
  }

  [[nodiscard]] NodeId id() const { return id_; }

  /// Repeats the request until an answer of this kind arrives.
  template <class Answer>
  [[nodiscard]] Answer ask(NodeId to, const Message& request) {
    const comm::Deadline deadline = comm::deadline_in({120});
    comm::Deadline again = comm::deadline_in({0});
    while (!comm::passed(deadline)) {
      if (comm::passed(again)) {
        again = comm::deadline_in({0.5});
        reactor_.send(to, request);
        reactor_.flush();
      }
      last_.reset();
      reactor_.process(reactor_.wait(comm::deadline_in({0.05})));
      if (last_ && std::holds_alternative<Answer>(*last_)) {
        return std::get<Answer>(std::move(*last_));
      }
    }
    throw Error(ErrorKind::Peer, "no answer");
  }

  /// The view of a shard, once all shards have one.
  [[nodiscard]] View find(std::size_t shard) {
    for (;;) {
      const auto state = ask<ClusterState>(NodeId::Coordinator, GetState{});
      for (const ServerAddress& server : state.servers) {
        reactor_.set_address(server.server, server.address);
      }
      if (state.shard_count > 0 && state.views.size() == state.shard_count) {
        for (const Member& member : state.views.at(shard).view.chain) {
          reactor_.connect(member.server);  // the tail acknowledges what the head got
        }
        return state.views.at(shard).view;
      }
    }
  }

  /// Sends the push to the head of its shard and waits for the acknowledgement.
  void push(Push push) {
    const View view = find(static_cast<std::size_t>(push.shard));
    push.epoch = view.epoch;
    push.worker = id_;
    (void)ask<PushDone>(view.chain.front().server, push);
  }

 private:
  NodeId id_;
  std::optional<Message> last_;
  Reactor reactor_;
};

}  // namespace trireme::ps
