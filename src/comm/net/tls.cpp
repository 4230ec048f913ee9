#include "comm/net/tls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/bytes_moved.h"
#include "comm/net/openssl_reason.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kTlsReadAhead = std::size_t{64} << 10;
constexpr std::size_t kBatch = std::size_t{128} << 10;
constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
constexpr std::array<unsigned char, 8> kIdentity{'t', 'r', 'i', 'r', 'e', 'm', 'e', '1'};

[[noreturn]] void throw_openssl(std::string_view what) {
  throw Error(ErrorKind::System, fmt::format("OpenSSL: {}: {}", what, openssl_reason()));
}

/// The session that represents the key; nullptr if OpenSSL cannot create it.
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
    return 1;  // the key is for SHA-256; continue without one, which the server will not
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

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

Context make_context() {
  // Certificates are not used; a foreign peer could send a large one.
  constexpr long kMaxCertificateBytes = 4096;
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    throw_openssl("cannot set up TLS 1.3");
  }
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context.get(), kMaxCertificateBytes);
  SSL_CTX_set_psk_use_session_callback(context.get(), use_session);
  SSL_CTX_set_psk_find_session_callback(context.get(), find_session);
  return context;
}

using BioMethod = std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)>;

}  // namespace

struct Tls::State {
  Digest key{};
  int fd = -1;  ///< of the socket, which outlives this object
  std::string peer;
  std::uint64_t records_per_key = 0;
  std::uint64_t under_this_key = 0;  ///< records written with the current key
  /// Read from the socket, but not yet by OpenSSL, which would make two system calls per record.
  std::vector<std::byte> ahead;
  std::size_t ahead_begin = 0;
  std::size_t ahead_end = 0;
  /// Encrypted, but not yet sent: several records are sent with one system call.
  std::vector<std::byte> out;
  std::size_t out_sent = 0;
  std::size_t owed = 0;  ///< bytes of the caller in `out` that were not reported as written
  std::unique_ptr<SSL, void (*)(SSL*)> ssl{nullptr, SSL_free};

  /// Sends as much of `out` as possible: Moved if all of it was sent.
  Transfer::Outcome flush();

  // OpenSSL's own socket BIO makes a system call per record, and its write() raises SIGPIPE when
  // the peer has closed. This one buffers output and reads ahead.
  static int collect(BIO* bio, const char* data, int length);
  static int receive(BIO* bio, char* into, int length);
  static long control(BIO* bio, int command, long number, void* pointer);
  static BioMethod make_bio_method();
};

Transfer::Outcome Tls::State::flush() {
  while (out_sent < out.size()) {
    const ssize_t sent =
        ::send(fd, out.data() + out_sent, out.size() - out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR) {
      return errno == EAGAIN ? Transfer::Outcome::WaitWrite : Transfer::Outcome::Closed;
    }
    out_sent += bytes_moved(sent);
  }
  out.clear();
  out_sent = 0;
  return Transfer::Outcome::Moved;
}

int Tls::State::collect(BIO* bio, const char* data, int length) {
  BIO_clear_retry_flags(bio);
  auto* state = static_cast<State*>(BIO_get_data(bio));
  const auto bytes = std::as_bytes(std::span(data, length));
  state->out.insert(state->out.end(), bytes.begin(), bytes.end());
  return length;
}

int Tls::State::receive(BIO* bio, char* into, int length) {
  BIO_clear_retry_flags(bio);
  auto* state = static_cast<State*>(BIO_get_data(bio));
  if (state->ahead_begin == state->ahead_end) {
    const ssize_t got = ::recv(state->fd, state->ahead.data(), state->ahead.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      BIO_set_retry_read(bio);
    }
    if (got <= 0) {
      return static_cast<int>(got);
    }
    state->ahead_begin = 0;
    state->ahead_end = bytes_moved(got);
  }
  const std::size_t taken =
      std::min(static_cast<std::size_t>(length), state->ahead_end - state->ahead_begin);
  std::memcpy(into, state->ahead.data() + state->ahead_begin, taken);
  state->ahead_begin += taken;
  return static_cast<int>(taken);
}

long Tls::State::control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BioMethod Tls::State::make_bio_method() {
  BioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "trireme socket"),
                   BIO_meth_free);
  if (method == nullptr || BIO_meth_set_write(method.get(), collect) != 1 ||
      BIO_meth_set_read(method.get(), receive) != 1 ||
      BIO_meth_set_ctrl(method.get(), control) != 1) {
    throw_openssl("cannot make a BIO");
  }
  return method;
}

Tls::Tls(const Fd& socket, Side side, const Digest& key, std::uint64_t records_per_key)
    : state_(std::make_unique<State>()) {
  // Shared by all connections, and never changed: OpenSSL supports only about a hundred BIO types.
  static const Context context = make_context();
  static const BioMethod method = State::make_bio_method();
  state_->key = key;
  state_->fd = socket.get();
  state_->peer = peer_of(socket);
  state_->records_per_key = records_per_key;
  state_->ahead.resize(kTlsReadAhead);
  state_->ssl.reset(SSL_new(context.get()));
  SSL* ssl = state_->ssl.get();
  BIO* bio = BIO_new(method.get());
  if (ssl == nullptr || bio == nullptr) {
    BIO_free(bio);
    throw_openssl("cannot set up TLS 1.3");
  }
  BIO_set_data(bio, state_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, &state_->key);
  if (side == Side::Client) {
    // Without a trusted root, this refuses a server that presents a certificate instead of the
    // key. The server has no certificate, so that it can only continue with the key.
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
  const int why = SSL_get_error(state_->ssl.get(), result);
  (void)state_->flush();  // the negotiation, or why it failed
  switch (why) {
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
  if (result == 1) {
    return {.bytes = bytes};
  }
  Transfer transfer = failed(result, "read");
  if (transfer.outcome == Transfer::Outcome::WaitRead && !state_->out.empty() &&
      state_->owed == 0) {
    transfer.outcome = Transfer::Outcome::WaitWrite;  // the negotiation must continue first
  }
  return transfer;
}

Transfer Tls::write(std::span<const std::byte> data) {
  const Transfer encrypted = state_->owed == 0 ? encrypt(data) : Transfer{};
  const Transfer::Outcome flushed = state_->flush();
  if (flushed != Transfer::Outcome::Moved) {
    return {.outcome = flushed};
  }
  return state_->owed == 0 ? encrypted : Transfer{.bytes = std::exchange(state_->owed, 0)};
}

/// Produces records until there are enough to justify a system call.
Transfer Tls::encrypt(std::span<const std::byte> data) {
  SSL* ssl = state_->ssl.get();
  while (!data.empty() && state_->out.size() < kBatch) {
    ERR_clear_error();
    if (state_->under_this_key >= state_->records_per_key &&
        SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
      state_->under_this_key = 0;
    }
    std::size_t bytes = 0;
    const int result = SSL_write_ex(ssl, data.data(), data.size(), &bytes);
    if (result != 1) {
      return failed(result, "write");
    }
    ++state_->under_this_key;  // a call makes one record
    state_->owed += bytes;
    data = data.subspan(bytes);
  }
  return {};
}

bool Tls::has_buffered() const noexcept {
  return state_->ahead_begin < state_->ahead_end || SSL_has_pending(state_->ssl.get()) == 1;
}

void Tls::close() noexcept {
  if (SSL_is_init_finished(state_->ssl.get()) == 1) {
    SSL_shutdown(state_->ssl.get());
    (void)state_->flush();
  }
  ERR_clear_error();
}

}  // namespace trireme::comm
