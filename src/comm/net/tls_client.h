// TLS 1.2 or later to a server that has a certificate, such as etcd. Between Trireme's own processes tls.h is used, which
// needs no certificates. TlsTrust: any thread. TlsClient: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/net/deadline.h"
#include "comm/net/fd.h"
#include "trireme/error.h"
#include "trireme/tls_files.h"

namespace trireme::comm {

/// The two sides did not agree to communicate. what() has the reason only: "its certificate is not trusted: …".
class TlsFailure : public Error {
 public:
  enum class Cause : std::uint8_t {
    Untrusted,  ///< no trusted CA signed the server's certificate
    WrongHost,  ///< the certificate has other names and addresses
    Expired,    ///< or not valid yet
    Refused,    ///< the server demands a certificate, or another one
    NotTls,     ///< the server speaks something else, or closed in the handshake
    Other,
  };
  TlsFailure(Cause cause, const std::string& what) : Error(ErrorKind::Peer, what), cause_(cause) {}
  [[nodiscard]] Cause cause() const noexcept { return cause_; }

 private:
  Cause cause_;
};

/// Whom a client trusts, and how it identifies itself. Reads the files once.
class TlsTrust {
 public:
  /// Throws Error(Usage) that names the file if it cannot be used, or if one of `certificate` and `key` is missing.
  explicit TlsTrust(const TlsFiles& files);
  ~TlsTrust();
  TlsTrust(const TlsTrust&) = delete;
  TlsTrust& operator=(const TlsTrust&) = delete;

 private:
  friend class TlsClient;
  struct State;
  std::unique_ptr<State> state_;
};

/// The client's side of an encrypted connection. All waits end at the deadline.
class TlsClient {
 public:
  /// Negotiates. `host` is the name or address that the server's certificate must have. `trust` and the connected `socket`
  /// must outlive it. Throws TlsFailure, or Error(System) at the deadline.
  TlsClient(const TlsTrust& trust, const Fd& socket, const std::string& host, Deadline deadline);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  /// Throws as the constructor. A connection that the server has closed shows in receive_some().
  void send_all(std::span<const std::byte> data);
  /// Waits for at least a byte; 0 if the server has ended the stream. Throws as the constructor; also TlsFailure if the
  /// connection closes before the end of the stream, because bytes may be missing.
  [[nodiscard]] std::size_t receive_some(std::span<std::byte> into);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::comm
