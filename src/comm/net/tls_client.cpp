// OpenSSL reads and writes memory BIOs, and this file moves their bytes: OpenSSL's socket BIO would raise SIGPIPE when the
// server has closed.
#include "comm/net/tls_client.h"

#include <array>
#include <filesystem>
#include <string_view>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "comm/net/openssl_reason.h"
#include "comm/net/socket.h"

namespace trireme::comm {
namespace {

using Cause = TlsFailure::Cause;

[[noreturn]] void throw_tls_setup() {
  throw Error(ErrorKind::System, "OpenSSL: cannot set up TLS: " + openssl_reason());
}

[[noreturn]] void refuse_file(std::string_view what, const std::string& path) {
  const std::string reason = std::filesystem::exists(path) ? openssl_reason() : "no such file";
  ERR_clear_error();
  throw Error(ErrorKind::Usage,
              fmt::format("{} '{}': {}: expected a PEM file", what, path, reason));
}

/// Instead of a prompt on the terminal.
int no_password(char* /*into*/, int /*size*/, int /*is_written*/, void* /*context*/) {
  return -1;
}

bool is_ip_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

Cause cause_of_certificate(long result) {
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Cause::WrongHost;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Cause::Expired;
    default:
      return Cause::Untrusted;
  }
}

TlsFailure certificate_failure(long result, const std::string& host) {
  const Cause cause = cause_of_certificate(result);
  switch (cause) {
    case Cause::WrongHost:
      return {cause, fmt::format("its certificate is not for {}", host)};
    case Cause::Expired:
      return {cause, result == X509_V_ERR_CERT_HAS_EXPIRED ? "its certificate has expired"
                                                           : "its certificate is not valid yet"};
    default:
      return {cause, fmt::format("its certificate is not trusted: {}",
                                 X509_verify_cert_error_string(result))};
  }
}

TlsFailure closed_early(const SSL* ssl) {
  if (SSL_is_init_finished(ssl) == 1) {
    return {Cause::Other, "closed the connection before the end of the TLS stream"};
  }
  return {Cause::NotTls, "closed the connection in the TLS handshake"};
}

/// Of the last error. Servers differ in the alert that they send to a client without a certificate.
TlsFailure failure_of_reason(const SSL* ssl) {
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  const std::string text = openssl_reason();
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return {Cause::NotTls, "it does not speak TLS"};
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return {Cause::Refused, fmt::format("it refuses this client's certificate: {}", text)};
    case 0:
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      return closed_early(ssl);
    default:
      return {Cause::Other, "TLS: " + text};
  }
}

}  // namespace

// --- TlsTrust.

struct TlsTrust::State {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context{SSL_CTX_new(TLS_client_method()),
                                                       SSL_CTX_free};
};

TlsTrust::TlsTrust(const TlsFiles& files) : state_(std::make_unique<State>()) {
  if (files.certificate.empty() != files.key.empty()) {
    throw Error(ErrorKind::Usage,
                "a TLS client's certificate and its key belong together: give both or neither");
  }
  ERR_clear_error();
  SSL_CTX* const context = state_->context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    throw_tls_setup();
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1) {
      throw_tls_setup();
    }
  } else if (SSL_CTX_load_verify_file(context, files.ca.c_str()) != 1) {
    refuse_file("CA certificate", files.ca);
  }
  if (files.certificate.empty()) {
    return;
  }
  SSL_CTX_set_default_passwd_cb(context, no_password);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    refuse_file("certificate", files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    refuse_file("private key", files.key);
  }
}

TlsTrust::~TlsTrust() = default;

// --- TlsClient.

struct TlsClient::State {
  const Fd& socket;
  std::string host;
  Deadline deadline;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl;
  BIO* in = nullptr;   ///< received, not yet read by OpenSSL, which owns both
  BIO* out = nullptr;  ///< written by OpenSSL, not yet sent

  void set_up();
  /// Calls OpenSSL until it succeeds: 1, or 0 at the end of the stream.
  template <class Call>
  int complete(const Call& call);
  void send();
  void receive();
};

void TlsClient::State::set_up() {
  in = BIO_new(BIO_s_mem());
  out = BIO_new(BIO_s_mem());
  if (ssl == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    throw_tls_setup();
  }
  SSL_set_bio(ssl.get(), in, out);
  BIO_set_mem_eof_return(in, -1);  // more may arrive
  const bool is_set =
      is_ip_address(host)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) == 1
          : SSL_set1_host(ssl.get(), host.c_str()) == 1 &&
                SSL_set_tlsext_host_name(ssl.get(), host.c_str()) == 1;
  if (!is_set) {
    throw_tls_setup();
  }
}

template <class Call>
int TlsClient::State::complete(const Call& call) {
  for (;;) {
    ERR_clear_error();
    const int result = call();
    const int why = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl.get(), result);
    const bool is_over = why == SSL_ERROR_SSL || why == SSL_ERROR_SYSCALL;
    if (is_over) {
      const long verified = SSL_get_verify_result(ssl.get());
      const TlsFailure failure = verified == X509_V_OK ? failure_of_reason(ssl.get())
                                                       : certificate_failure(verified, host);
      ERR_clear_error();
      send();  // tells the server why
      throw TlsFailure(failure);
    }
    send();
    if (why != SSL_ERROR_WANT_READ) {
      return result == 1 ? 1 : 0;
    }
    receive();
  }
}

/// Drops data that the server no longer accepts: receiving shows why.
void TlsClient::State::send() {
  std::array<std::byte, 16384> bytes{};
  for (;;) {
    const int count = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
    if (count <= 0) {
      return;
    }
    std::span<const std::byte> rest = std::span(bytes).first(count);
    while (!rest.empty()) {
      const Transfer sent = send_some(socket, rest);
      if (sent.outcome == Transfer::Outcome::Closed) {
        break;
      }
      if (sent.outcome != Transfer::Outcome::Moved && !wait_for(socket, Ready::Write, deadline)) {
        throw Error(ErrorKind::System, "accepts no data in time");
      }
      rest = rest.subspan(sent.bytes);
    }
  }
}

void TlsClient::State::receive() {
  std::array<std::byte, 16384> bytes{};
  Transfer got = comm::receive_some(socket, bytes);
  while (got.outcome == Transfer::Outcome::WaitRead ||
         got.outcome == Transfer::Outcome::WaitWrite) {
    if (!wait_for(socket, Ready::Read, deadline)) {
      throw Error(ErrorKind::System, "no answer in time");
    }
    got = comm::receive_some(socket, bytes);
  }
  if (got.outcome == Transfer::Outcome::Closed) {
    BIO_set_mem_eof_return(in, 0);
  } else if (BIO_write(in, bytes.data(), static_cast<int>(got.bytes)) < 0) {
    throw_tls_setup();
  }
}

TlsClient::TlsClient(const TlsTrust& trust, const Fd& socket, const std::string& host,
                     Deadline deadline)
    : state_(std::make_unique<State>(
          State{socket, host, deadline, {SSL_new(trust.state_->context.get()), SSL_free}})) {
  state_->set_up();
  (void)state_->complete([&] { return SSL_connect(state_->ssl.get()); });
}

TlsClient::~TlsClient() = default;

void TlsClient::send_all(std::span<const std::byte> data) {
  std::size_t written = 0;  // a memory BIO takes everything at once
  (void)state_->complete(
      [&] { return SSL_write_ex(state_->ssl.get(), data.data(), data.size(), &written); });
}

std::size_t TlsClient::receive_some(std::span<std::byte> into) {
  std::size_t got = 0;
  const int result = state_->complete(
      [&] { return SSL_read_ex(state_->ssl.get(), into.data(), into.size(), &got); });
  return result == 1 ? got : 0;
}

}  // namespace trireme::comm
