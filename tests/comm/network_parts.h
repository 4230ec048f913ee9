// Transports of two ranks, without a world.
#pragma once

#include "comm/net/secret.h"
#include "comm/transport/transport.h"

namespace trireme::comm {

/// For make_tcp_transport() and make_ucx_transport() of rank 0 or 1.
inline NetworkParts parts_of(Rank rank, const Secret& secret) {
  return {.rank = rank, .ranks = 2, .secret = secret};
}

}  // namespace trireme::comm
