#include "comm/transport/tcp/tls_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::comm {
namespace {

using Outcome = Transfer::Outcome;

/// The maximum size of a TLS record.
constexpr std::size_t kRecord = std::size_t{16} << 10;

/// TLS handles whole records. Records that do not fit into the socket count as not taken, and continue when the same
/// bytes are written again, as the mailbox does. Either direction may have to wait for the other (in the negotiation);
/// any event of the socket makes the mailbox retry both.
class TlsStream : public Stream {
 public:
  TlsStream(std::shared_ptr<Connection> connection, Rank peer)
      : connection_(std::move(connection)), peer_(peer) {}

  [[nodiscard]] std::size_t write(std::span<const std::byte> head,
                                  std::span<const std::byte> body) override {
    std::size_t done = 0;
    if (!head.empty()) {  // in one record with the beginning of the body
      const std::size_t with = std::min(body.size(), kRecord - std::min(kRecord, head.size()));
      first_.assign(head.begin(), head.end());
      first_.insert(first_.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(with));
      done = write_all(first_);
      if (done < first_.size()) {
        return done;
      }
      body = body.subspan(with);
    }
    return done + write_all(body);
  }

  /// Reads until OpenSSL has no record left: poll() does not see what it buffers.
  [[nodiscard]] std::size_t read(std::span<std::byte> into) override {
    // Cleared before the check, so that no later arrival is missed.
    if (!connection_->readable.exchange(false)) {
      return 0;
    }
    std::size_t done = 0;
    while (done < into.size()) {
      const Transfer got = attempt([&] { return connection_->channel.read(into.subspan(done)); });
      done += got.bytes;
      if (got.outcome == Outcome::Closed && done == 0) {
        throw Closed("its connection closed");
      }
      if (got.outcome == Outcome::WaitRead || got.outcome == Outcome::WaitWrite) {
        return done;
      }
      if (got.outcome == Outcome::Closed) {
        break;  // reported by the next read
      }
    }
    connection_->readable.store(true);  // there may be more
    return done;
  }

 private:
  std::size_t write_all(std::span<const std::byte> data) {
    std::size_t done = 0;
    while (done < data.size()) {
      const Transfer sent = attempt([&] { return connection_->channel.write(data.subspan(done)); });
      done += sent.bytes;
      if (sent.outcome == Outcome::Closed) {
        throw Error(ErrorKind::Peer, fmt::format("the connection to rank {} broke", peer_));
      }
      if (sent.outcome != Outcome::Moved) {
        break;
      }
    }
    return done;
  }

  /// Errors reported by TLS: an attacker, or damage in transit.
  template <class Function>
  Transfer attempt(const Function& function) {
    try {
      return function();
    } catch (const Error& error) {
      throw Error(ErrorKind::Peer,
                  fmt::format("data between this rank and rank {} was damaged or changed in "
                              "transit: {}",
                              peer_, error.what()));
    }
  }

  std::shared_ptr<Connection> connection_;
  Rank peer_;
  std::vector<std::byte> first_;
};

}  // namespace

std::unique_ptr<Stream> make_tls_stream(std::shared_ptr<Connection> connection, Rank peer) {
  return std::make_unique<TlsStream>(std::move(connection), peer);
}

}  // namespace trireme::comm
