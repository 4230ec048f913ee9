#include "comm/rendezvous/tls.h"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
constexpr std::array<unsigned char, 8> kIdentity{'t', 'r', 'i', 'r', 'e', 'm', 'e', '1'};

std::string openssl_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason != nullptr ? reason : "no reason given";
}

[[noreturn]] void throw_openssl(std::string_view what) {
  throw Error(ErrorKind::System, fmt::format("OpenSSL: {}: {}", what, openssl_reason()));
}

/// The session that stands for the key; nullptr if OpenSSL will not make it.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* key = static_cast<const Digest*>(SSL_get_app_data(ssl));
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
  SSL_SESSION* session = SSL_SESSION_new();
  if (cipher == nullptr || session == nullptr ||
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key->data()),
                                  key->size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int use_session(SSL* ssl, const EVP_MD* hash, const unsigned char** id, std::size_t* id_length,
                SSL_SESSION** session) {
  *session = nullptr;
  if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) {
    return 1;  // the key is for SHA-256; go on without one, which the server will not
  }
  *session = session_of(ssl);
  *id = kIdentity.data();
  *id_length = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int find_session(SSL* ssl, const unsigned char* id, std::size_t id_length, SSL_SESSION** session) {
  const bool ours = std::equal(id, id + id_length, kIdentity.begin(), kIdentity.end());
  *session = ours ? session_of(ssl) : nullptr;
  return !ours || *session != nullptr ? 1 : 0;
}

// OpenSSL's own socket BIO writes with write(), which raises SIGPIPE when the peer has gone. This
// one sends with MSG_NOSIGNAL.

int bio_write(BIO* bio, const char* data, int length) {
  BIO_clear_retry_flags(bio);
  int fd = -1;
  BIO_get_fd(bio, &fd);
  const ssize_t sent = ::send(fd, data, static_cast<std::size_t>(length), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* into, int length) {
  BIO_clear_retry_flags(bio);
  int fd = -1;
  BIO_get_fd(bio, &fd);
  const ssize_t received = ::recv(fd, into, static_cast<std::size_t>(length), 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
    BIO_set_retry_read(bio);
  }
  return static_cast<int>(received);
}

using BioMethod = std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)>;

long bio_control(BIO* bio, int command, long number, void* pointer) {
  switch (command) {
    case BIO_C_GET_FD:
      *static_cast<int*>(pointer) = *static_cast<const int*>(BIO_get_data(bio));
      return 1;
    case BIO_CTRL_FLUSH:
      return 1;
    default:
      (void)number;
      return 0;
  }
}

BioMethod make_bio_method() {
  BioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "trireme socket"),
                   BIO_meth_free);
  if (method == nullptr || BIO_meth_set_write(method.get(), bio_write) != 1 ||
      BIO_meth_set_read(method.get(), bio_read) != 1 ||
      BIO_meth_set_ctrl(method.get(), bio_control) != 1) {
    throw_openssl("cannot make a BIO");
  }
  return method;
}

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

Context make_context() {
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    throw_openssl("cannot set up TLS 1.3");
  }
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context.get(), use_session);
  SSL_CTX_set_psk_find_session_callback(context.get(), find_session);
  return context;
}

}  // namespace

struct Tls::State {
  Digest key{};
  int fd = -1;  ///< of the socket that outlives this
  std::string peer;
  BioMethod method = make_bio_method();
  Context context = make_context();
  std::unique_ptr<SSL, void (*)(SSL*)> ssl{SSL_new(context.get()), SSL_free};
};

Tls::Tls(const Fd& socket, Side side, const Digest& key) : state_(std::make_unique<State>()) {
  state_->key = key;
  state_->fd = socket.get();
  state_->peer = peer_of(socket);
  SSL* ssl = state_->ssl.get();
  BIO* bio = BIO_new(state_->method.get());
  if (ssl == nullptr || bio == nullptr) {
    BIO_free(bio);
    throw_openssl("cannot set up TLS 1.3");
  }
  BIO_set_data(bio, &state_->fd);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, &state_->key);
  if (side == Side::Client) {
    // Without a trusted root, this refuses a server that comes with a certificate instead of the
    // key. The server has no certificate, so that it can only go on with the key.
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
    SSL_set_connect_state(ssl);
  } else {
    SSL_set_accept_state(ssl);
  }
}

Tls::~Tls() {
  OPENSSL_cleanse(state_->key.data(), state_->key.size());
}

Transfer Tls::failed(int result, std::string_view what) {
  switch (SSL_get_error(state_->ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {.outcome = Transfer::Outcome::WaitRead};
    case SSL_ERROR_WANT_WRITE:
      return {.outcome = Transfer::Outcome::WaitWrite};
    case SSL_ERROR_ZERO_RETURN:
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      return {.outcome = Transfer::Outcome::Closed};
    default:
      if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        ERR_clear_error();
        return {.outcome = Transfer::Outcome::Closed};
      }
      throw Error(ErrorKind::Peer,
                  fmt::format("{}: TLS cannot {}: {}", state_->peer, what, openssl_reason()));
  }
}

Transfer Tls::read(std::span<std::byte> into) {
  if (into.empty()) {
    return {};
  }
  std::size_t bytes = 0;
  ERR_clear_error();
  const int result = SSL_read_ex(state_->ssl.get(), into.data(), into.size(), &bytes);
  return result == 1 ? Transfer{.bytes = bytes} : failed(result, "read");
}

Transfer Tls::write(std::span<const std::byte> data) {
  if (data.empty()) {
    return {};
  }
  std::size_t bytes = 0;
  ERR_clear_error();
  const int result = SSL_write_ex(state_->ssl.get(), data.data(), data.size(), &bytes);
  return result == 1 ? Transfer{.bytes = bytes} : failed(result, "write");
}

void Tls::close() noexcept {
  if (SSL_is_init_finished(state_->ssl.get()) == 1) {
    SSL_shutdown(state_->ssl.get());
  }
  ERR_clear_error();
}

}  // namespace trireme::comm
