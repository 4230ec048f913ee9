#include "comm/net/secret.h"

#include <cerrno>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

#include "base/bytes_moved.h"
#include "comm/net/fd.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kShortestText = 16;

std::optional<unsigned> digit(char c) {
  if (c >= '0' && c <= '9') {
    return static_cast<unsigned>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<unsigned>(c - 'a' + 10);
  }
  if (c >= 'A' && c <= 'F') {
    return static_cast<unsigned>(c - 'A' + 10);
  }
  return std::nullopt;
}

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Secret Secret::random() {
  Secret secret;
  fill_random(secret.bytes_);
  return secret;
}

Secret Secret::from_hex(std::string_view hex) {
  Secret secret;
  bool good = hex.size() == 2 * secret.bytes_.size();
  for (std::size_t i = 0; good && i < secret.bytes_.size(); ++i) {
    const std::optional<unsigned> high = digit(hex[2 * i]);
    const std::optional<unsigned> low = digit(hex[2 * i + 1]);
    good = high && low;
    secret.bytes_[i] = static_cast<std::byte>(good ? *high * 16 + *low : 0);
  }
  if (!good) {
    throw Error(ErrorKind::Usage,
                fmt::format("the secret of {} characters is not 64 hexadecimal digits; "
                            "'openssl rand -hex 32' generates one",
                            hex.size()));
  }
  return secret;
}

Secret Secret::from_text(std::string_view text) {
  if (text.size() < kShortestText) {
    throw Error(ErrorKind::Usage, fmt::format("the secret has {} characters; it needs at least {}",
                                              text.size(), kShortestText));
  }
  Secret secret;
  secret.bytes_ = hmac_sha256(bytes_of("trireme secret"), {bytes_of(text)});
  return secret;
}

Secret::~Secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

std::string Secret::hex() const {
  return to_hex(bytes_);
}

Digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts) {
  const std::unique_ptr<EVP_MAC, void (*)(EVP_MAC*)> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr),
                                                         EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, void (*)(EVP_MAC_CTX*)> context(EVP_MAC_CTX_new(mac.get()),
                                                                     EVP_MAC_CTX_free);
  std::array<char, 7> hash{"SHA256"};
  const std::array<OSSL_PARAM, 2> parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, hash.data(), 0),
      OSSL_PARAM_construct_end()};
  Digest digest{};
  bool good = context != nullptr &&
              EVP_MAC_init(context.get(), raw(key), key.size(), parameters.data()) == 1;
  for (const std::span<const std::byte> part : parts) {
    good = good && EVP_MAC_update(context.get(), raw(part), part.size()) == 1;
  }
  std::size_t length = 0;
  good = good && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                               &length, digest.size()) == 1;
  if (!good || length != digest.size()) {
    throw Error(ErrorKind::System, "OpenSSL cannot compute HMAC-SHA-256; reinstall OpenSSL");
  }
  return digest;
}

bool same(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::getrandom(into.data(), into.size(), 0);
    if (got < 0 && errno != EINTR) {
      throw_system("cannot get random bytes", errno);
    }
    into = into.subspan(bytes_moved(got));
  }
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    fmt::format_to(std::back_inserter(out), "{:02x}", std::to_integer<unsigned>(byte));
  }
  return out;
}

}  // namespace trireme::comm
