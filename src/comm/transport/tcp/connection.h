// Connection: the state of one connection to a peer, shared by the TCP transport and its streams.
#pragma once

#include <atomic>
#include <utility>

#include "comm/net/channel.h"

namespace trireme::comm {

/// A connection, and what poll() learned about it. The channel is used by one thread at a time, the
/// flags by any.
struct Connection {
  explicit Connection(Channel opened) : channel(std::move(opened)) {}
  Channel channel;
  std::atomic<bool> readable{true};  ///< there may be input; cleared by a read that finds none
  std::atomic<bool> ended{false};    ///< nothing follows the unread input
};

}  // namespace trireme::comm
