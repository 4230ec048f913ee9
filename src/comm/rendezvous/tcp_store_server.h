// TcpStoreServer: serves a Store to the ranks of a job over TCP, from a thread of its own. Its
// functions may be called from any thread; the last one is its destructor. Fork before making one:
// the thread would be missing in the child.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/net/admission.h"
#include "comm/net/handshake.h"
#include "comm/net/socket.h"

namespace trireme::comm {

class StoreLoop;

struct TcpStoreServerOptions {
  /// Where to listen: this host only, unless told otherwise.
  Address listen;
  Secret secret;
  Encryption encryption = Encryption::None;
  /// How long a client may take for the handshake before it is dropped.
  Seconds handshake_patience = kMostHandshakeTime;
};

class TcpStoreServer {
 public:
  /// Listens when it returns. Throws Error(System).
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  /// Closes all connections; waits for the thread, which never waits for a client.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// With the port that it really has.
  [[nodiscard]] const Address& address() const;
  /// Why clients were dropped, one line each; the last 64. Those that just left are not among them.
  [[nodiscard]] std::vector<std::string> refusals() const;

 private:
  std::unique_ptr<StoreLoop> loop_;
  std::thread thread_;
};

}  // namespace trireme::comm
