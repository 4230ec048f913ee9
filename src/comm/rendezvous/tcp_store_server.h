// TcpStoreServer: serves a Store to the ranks of a job over TCP, on its own thread. Its functions
// may be called from any thread; the last one is its destructor. Fork before creating one: the
// thread would be missing in the child.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/net/address.h"
#include "comm/rendezvous/store_server_options.h"

namespace trireme::comm {

class StoreLoop;

class TcpStoreServer {
 public:
  /// Is listening when it returns. Throws Error(System).
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  /// Closes all connections; waits for the thread, which never waits for a client.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// With the actual port.
  [[nodiscard]] const Address& address() const;
  /// Why clients were dropped, one line each; the last 64. Excludes those that just left.
  [[nodiscard]] std::vector<std::string> refusals() const;

 private:
  std::unique_ptr<StoreLoop> loop_;
  std::thread thread_;
};

}  // namespace trireme::comm
