#include "comm/rendezvous/tcp_store_server.h"

#include <csignal>

#include <fmt/format.h>

#include "comm/rendezvous/store_loop.h"
#include "trireme/error.h"

namespace trireme::comm {

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : loop_(std::make_unique<StoreLoop>(options)) {
  // The thread inherits the mask: the program's own threads handle signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([loop = loop_.get()] { loop->run(); });
  } catch (const std::exception& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ErrorKind::System,
                fmt::format("cannot start the store's thread: {}", error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TcpStoreServer::~TcpStoreServer() {
  loop_->stop();
  thread_.join();
}

const Address& TcpStoreServer::address() const {
  return loop_->address();
}

std::vector<std::string> TcpStoreServer::refusals() const {
  return loop_->refusals();
}

}  // namespace trireme::comm
