// Connection: what the TCP transport and its streams share of one connection to a peer.
#pragma once

#include <atomic>
#include <utility>

#include "comm/rendezvous/channel.h"

namespace trireme::comm {

/// A connection and whether it may have something to read. Set by poll(), cleared by whoever finds
/// nothing. The channel is used by one thread at a time, the flag by any.
struct Connection {
  explicit Connection(Channel opened) : channel(std::move(opened)) {}
  Channel channel;
  std::atomic<bool> readable{true};
};

}  // namespace trireme::comm
