// TcpStoreServerOptions: how a store is served over TCP. Plain data.
#pragma once

#include "comm/net/address.h"
#include "comm/net/admission.h"
#include "comm/net/handshake.h"
#include "comm/net/secret.h"

namespace trireme::comm {

struct TcpStoreServerOptions {
  /// Where to listen: by default on this host only.
  Address listen;
  Secret secret;
  Encryption encryption = Encryption::None;
  /// How long a client may take for the handshake before it is dropped.
  Seconds handshake_patience = kMaxHandshakeTime;
};

}  // namespace trireme::comm
