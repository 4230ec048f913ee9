// TcpStoreServer: serves a Store to the ranks of a job over TCP, from a thread of its own. Its
// functions may be called from any thread; the last one is its destructor. Fork before making one:
// the thread would be missing in the child.
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
