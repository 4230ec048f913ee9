// UCX: for networks that UCX uses better than TCP does, or on one host if requested. One endpoint per peer. UCX does
// not authenticate, so the two sides of an endpoint prove to one another that they have the job's secret before
// anything else is read from it.
#include "comm/transport/transport.h"

#include <algorithm>
#include <csignal>
#include <map>

#include <fmt/format.h>
#include <ucs/debug/debug.h>

#include "comm/net/handshake.h"
#include "comm/transport/ucx/worker.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// The endpoint belongs to the transport, which outlives the mailbox and so its streams.
class UcxStream : public Stream {
 public:
  explicit UcxStream(UcxEndpoint& endpoint) : endpoint_(endpoint) {}
  [[nodiscard]] std::size_t write(std::span<const std::byte> head,
                                  std::span<const std::byte> body) override {
    return endpoint_.write(head, body);
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> into) override {
    return endpoint_.read(into);
  }

 private:
  UcxEndpoint& endpoint_;
};

/// How two ranks introduce themselves: the handshake, then each sends its rank.
class Greeting {
 public:
  struct Ranks {
    Rank own = 0;
    Rank peer = 0;
  };
  Greeting(UcxEndpoint& endpoint, Ranks ranks, const Secret& secret)
      : endpoint_(endpoint),
        ranks_(ranks),
        handshake_({.side = ranks.own < ranks.peer ? Side::Client : Side::Server,
                    .purpose = Purpose::Data,
                    .secret = secret,
                    .peer = fmt::format("rank {}", ranks.peer)}) {}

  /// Advances as far as possible; true once it is done. Throws Error(Peer).
  [[nodiscard]] bool advance() {
    while (handshake_.state() == Handshake::State::Going) {
      std::array<std::byte, 64> bytes{};
      say();
      const std::size_t got = endpoint_.read(std::span(bytes).first(handshake_.wanted()));
      if (got == 0) {
        return false;
      }
      handshake_.take(std::span(bytes).first(got));
    }
    say();
    if (handshake_.state() == Handshake::State::Refused) {
      throw Error(ErrorKind::Peer, handshake_.problem());
    }
    return handshake_.to_send().empty() && exchange_ranks();
  }

 private:
  void say() { handshake_.sent(endpoint_.write(handshake_.to_send(), {})); }

  [[nodiscard]] bool exchange_ranks() {
    const auto own = std::as_bytes(std::span(&ranks_.own, 1));
    said_ += endpoint_.write(own.subspan(said_), {});
    const auto peer = std::as_writable_bytes(std::span(&introduced_, 1));
    heard_ += endpoint_.read(peer.subspan(heard_));
    if (said_ < own.size() || heard_ < peer.size()) {
      return false;
    }
    if (introduced_ != ranks_.peer) {
      throw Error(ErrorKind::Peer, fmt::format("rank {} answered where rank {} should be",
                                               introduced_, ranks_.peer));
    }
    return true;
  }

  UcxEndpoint& endpoint_;
  Ranks ranks_;
  Handshake handshake_;
  Rank introduced_ = -1;   ///< as claimed by the peer
  std::size_t said_ = 0;   ///< bytes sent of this rank's number
  std::size_t heard_ = 0;  ///< bytes received of the peer's
};

class UcxTransport : public Transport {
 public:
  explicit UcxTransport(const NetworkParts& parts) : parts_(parts), worker_(parts.options.bind) {
    if (!parts_.secret) {
      throw Error(ErrorKind::Usage, "connections between ranks need the job's secret");
    }
  }

  /// Flushes the last writes, unless a peer does not take them.
  ~UcxTransport() override {
    constexpr Seconds kPatience{0.25};
    const Deadline give_up = deadline_in(kPatience);
    for (const auto& [peer, endpoint] : endpoints_) {
      endpoint->flush(give_up);
    }
  }
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  [[nodiscard]] TransportKind kind() const override { return TransportKind::Ucx; }
  [[nodiscard]] std::string address() const override { return worker_.address(); }
  [[nodiscard]] bool needs_poll() const override { return true; }
  void poll(std::chrono::milliseconds at_most) override { worker_.poll(at_most); }
  void wake() override { worker_.wake(); }

  void connect(const std::vector<PeerAddress>& peers, Deadline deadline) override {
    std::vector<std::unique_ptr<Greeting>> greetings;
    for (const PeerAddress& peer : peers) {
      auto endpoint = std::make_unique<UcxEndpoint>(worker_, peer.address);
      greetings.push_back(std::make_unique<Greeting>(
          *endpoint, Greeting::Ranks{parts_.rank, peer.rank}, *parts_.secret));
      endpoints_[peer.rank] = std::move(endpoint);
    }
    for (;;) {
      std::erase_if(greetings, [](const auto& greeting) { return greeting->advance(); });
      if (greetings.empty()) {
        return;
      }
      if (passed(deadline)) {
        throw Error(ErrorKind::Peer,
                    fmt::format("rank {}: {} of {} other ranks answered in time", parts_.rank,
                                peers.size() - greetings.size(), peers.size()));
      }
      worker_.poll(std::chrono::milliseconds(1));
    }
  }

  [[nodiscard]] std::vector<std::unique_ptr<Stream>> streams(Rank peer) override {
    std::vector<std::unique_ptr<Stream>> one;
    one.push_back(std::make_unique<UcxStream>(*endpoints_.at(peer)));
    return one;
  }

 private:
  NetworkParts parts_;
  mutable UcxWorker worker_;
  std::map<Rank, std::unique_ptr<UcxEndpoint>> endpoints_;
};

}  // namespace

void restore_ucx_signal_handlers() {
  for (const int number : {SIGHUP, SIGILL, SIGSEGV, SIGBUS, SIGFPE}) {
    struct sigaction current {};
    sigaction(number, nullptr, &current);
    if (current.sa_handler != SIG_DFL &&
        current.sa_handler != SIG_IGN) {  // UCX_HANDLE_ERRORS may have turned them off
      ucs_debug_disable_signal(number);
    }
  }
}

bool has_ucx() {
  return true;
}

std::unique_ptr<Transport> make_ucx_transport(const NetworkParts& parts) {
  return std::make_unique<UcxTransport>(parts);
}

}  // namespace trireme::comm
