// Reactor: the connections of one node, and an event loop for them. A message is handled on the thread that read it.
// Never blocks except in wait(). Messages to nodes that cannot be reached are dropped; the protocol repeats them.
//
// One thread at a time, except wait() and wake(), which any thread may call meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/epoll.h>

#include "comm/net/channel.h"
#include "comm/net/deadline.h"
#include "comm/net/socket.h"
#include "ps/net/connection.h"
#include "ps/protocol/message.h"

namespace trireme::ps {

struct ReactorOptions {
  NodeId self{};
  std::optional<comm::Address> listen{};  ///< nothing: only connects to others
  comm::Secret secret;
  comm::Encryption encryption = comm::Encryption::None;
  std::string encryption_advice{};  ///< as in HandshakeOptions
  bool shares_memory = false;       ///< with nodes of this host that want to, unless encrypted
};

class Reactor {
 public:
  struct Handlers {
    std::function<void(NodeId from, Message& message)> message;
    /// A new connection: messages sent earlier may be lost.
    std::function<void(NodeId peer)> connected{};
    std::function<void(const std::string& why)> refused{};  ///< a peer was refused; names it
    /// A node that this one called has another secret or other settings: repeating does not help.
    std::function<void(NodeId peer, const std::string& why)> rejected{};
    Connection::Place place{};  ///< where large vectors are wanted
  };
  /// Is listening when it returns. Throws Error(System).
  Reactor(ReactorOptions options, Handlers handlers);

  /// Where it listens. Requires options.listen.
  [[nodiscard]] const comm::Address& address() const { return listener_->address; }
  /// Where a node listens, for send() to connect. A changed address is tried at once. Throws Error(Usage) if it is invalid.
  void set_address(NodeId node, const std::string& address);
  /// set_address(); closes a connection that was made to another address. Not from a handler.
  void redirect(NodeId node, const std::string& address);

  /// Starts to connect unless there is a connection, so that the node can send to this one. Repeats that for a second if
  /// the node cannot be reached, as after send() and when a connection is lost that this node has made.
  void connect(NodeId to);
  void send(NodeId to, const Message& message);
  /// Copies pinned floats that are still to be sent, and leaves the memory that `place` returned.
  void detach();
  /// Leaves this memory, that `place` returned.
  void release(std::span<const float> memory);
  /// Sends small messages that were collected.
  void flush();

  /// Events to be processed; waits for them until the deadline or wake().
  using Events = std::vector<epoll_event>;
  [[nodiscard]] Events wait(comm::Deadline deadline) const;
  void wake() const noexcept;
  void process(const Events& events);

 private:
  using Name = std::uint64_t;
  struct Link {
    std::unique_ptr<Connection> connection;
    comm::Clock::time_point since;
    bool is_caller = false;
    std::uint32_t watched = 0;
    bool is_routed = false;  ///< routes_ has known it
  };
  struct Destination {
    comm::Address address;
    comm::Deadline next_try{};
    comm::Deadline redial{};  ///< not before
    int redials = 0;
  };

  [[nodiscard]] int poll_events(Events& into, int timeout) const;
  [[nodiscard]] int poll_eagerly(Events& into, comm::Deadline deadline) const;
  void watch(int operation, const comm::Fd& fd, Name name, std::uint32_t events) const;
  void accept_all();
  Name add(comm::Fd socket, bool is_caller, const std::string& peer);
  Name dial(NodeId to);
  void want(NodeId node);
  void redial();
  void serve(Name name);
  [[nodiscard]] bool progress(Name name, Link& link);
  void learn_route(Name name, Link& link);
  void watch_for_more(Name name, Link& link);
  void drop(Name name, const std::string& why);
  void report_rejection(const Link& link, const Error& error) const;
  void drop_late();

  ReactorOptions options_;
  Handlers handlers_;
  std::optional<comm::Listener> listener_;
  comm::Fd epoll_;
  comm::Fd wake_;
  BufferPool pool_;
  std::map<Name, Link> links_;
  std::map<NodeId, Name> routes_;
  std::map<NodeId, Destination> destinations_;
  std::set<NodeId> wanted_;     ///< could not be reached or have been lost: to be dialed again
  std::deque<Name> strangers_;  ///< in the handshake, oldest first
  std::vector<Name> unflushed_;
  Name next_name_ = 2;
  std::uint64_t host_;  ///< shared_memory_host(), or 0
  // How waits have gone.
  mutable std::atomic<int> naps_ = 0;     ///< waits that sleep at once
  mutable std::atomic<int> in_vain_ = 0;  ///< eager waits in a row
};

}  // namespace trireme::ps
