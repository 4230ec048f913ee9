#include "comm/net/handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace trireme::comm {

/// Why a side refuses; sent as 0x80 + this.
enum class Handshake::Reason : std::uint8_t {
  NotTrireme = 1,
  Version = 2,
  Purpose = 3,
  Secret = 4,
  Encryption = 5,
};

namespace {

constexpr std::uint8_t kWelcome = 0x7f;
constexpr std::uint8_t kEncrypted = 0x40;
constexpr std::uint8_t kRefused = 0x80;

std::string_view name_of_purpose(std::uint8_t code) {
  switch (code & ~kEncrypted) {
    case 1:
      return "a store";
    case 2:
      return "data";
    case 3:
      return "a parameter server";
    default:
      return "something unknown";
  }
}

std::string first_bytes(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    fmt::format_to(std::back_inserter(out), "{}{:02x}", out.empty() ? "" : " ",
                   std::to_integer<unsigned>(byte));
  }
  return out;
}

std::uint32_t read_u32(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  }
  return value;
}

}  // namespace

Handshake::Handshake(HandshakeOptions options) : options_(std::move(options)) {
  if (is_client()) {
    say_head(own_code());
    std::array<std::byte, 32> nonce{};
    fill_random(nonce);
    say(nonce);
    std::copy(out_.begin(), out_.end(), client_hello_.begin());
  }
}

std::size_t Handshake::wanted() const noexcept {
  return state_ == State::Going ? in_expected_ - in_filled_ : 0;
}

void Handshake::take(std::span<const std::byte> bytes) {
  TRIREME_CHECK(bytes.size() <= wanted(), "more bytes than the handshake expects");
  std::copy(bytes.begin(), bytes.end(), in_.begin() + static_cast<std::ptrdiff_t>(in_filled_));
  in_filled_ += bytes.size();
  taken_ += bytes.size();
  if (part_ == Part::Head) {
    check_magic();
  }
  if (wanted() > 0 || state_ != State::Going) {
    return;
  }
  switch (part_) {
    case Part::Head:
      return read_head();
    case Part::HelloRest:
      return read_hello_rest();
    case Part::Proof:
      return read_proof();
    case Part::Welcome:
      break;
  }
}

/// Checks the bytes received so far, so that a foreign peer is rejected at the first wrong byte.
void Handshake::check_magic() {
  const std::size_t known = std::min(in_filled_, kHandshakeMagic.size());
  if (std::memcmp(in_.data(), kHandshakeMagic.data(), known) != 0) {
    refuse(Reason::NotTrireme,
           fmt::format("{} is not a Trireme peer (first bytes {})", options_.peer,
                       first_bytes(std::span(in_).first(std::min<std::size_t>(in_filled_, 8)))));
  }
}

void Handshake::read_head() {
  const std::uint32_t version = read_u32(std::span(in_).subspan(kHandshakeMagic.size()));
  const auto code = std::to_integer<std::uint8_t>(in_[kHead - 1]);
  if (version != kProtocolVersion) {
    return refuse(Reason::Version,
                  fmt::format("{} speaks version {} of the Trireme protocol, this side version {}; "
                              "run the same Trireme on every rank",
                              options_.peer, version, kProtocolVersion));
  }
  if (code >= kRefused) {
    return refused_by_peer(code);
  }
  if (after_head_ == Part::Welcome) {
    if (code != kWelcome) {
      return refuse(Reason::NotTrireme, fmt::format("{} ended the handshake with code {}, not {}",
                                                    options_.peer, code, kWelcome));
    }
    state_ = State::Done;
    return;
  }
  if ((code & ~kEncrypted) != (own_code() & ~kEncrypted)) {
    return refuse(Reason::Purpose,
                  fmt::format("{} connects for {}, this side for {}; are the addresses mixed up?",
                              options_.peer, name_of_purpose(code), name_of_purpose(own_code())));
  }
  if (after_head_ == Part::HelloRest) {
    Hello& hello = is_client() ? server_hello_ : client_hello_;
    std::copy_n(in_.begin(), kHead, hello.begin());
    return expect(Part::HelloRest, is_client() ? 64 : 32);
  }
  expect(Part::Proof, 32);
}

void Handshake::read_hello_rest() {
  Hello& hello = is_client() ? server_hello_ : client_hello_;
  std::copy_n(in_.begin(), 32, hello.begin() + kHead);
  if (!is_client()) {
    say_head(own_code());
    std::array<std::byte, 32> nonce{};
    fill_random(nonce);
    say(nonce);
    std::copy(out_.begin(), out_.end(), server_hello_.begin());
    say(proof_of(Side::Server));
    after_head_ = Part::Proof;
    return expect(Part::Head, kHead);
  }
  Digest proof{};
  std::copy_n(in_.begin() + 32, proof.size(), proof.begin());
  if (!same(proof, proof_of(Side::Server))) {
    return refuse(Reason::Secret,
                  fmt::format("{} has another secret than this side; give every rank of the job "
                              "the same one, and check the address",
                              options_.peer));
  }
  say_head(own_code());
  say(proof_of(Side::Client));
  if (!wants_what_the_other_wants()) {
    return find_disagreement();  // as the server does once it has the proof
  }
  after_head_ = Part::Welcome;
  expect(Part::Head, kHead);
}

void Handshake::read_proof() {
  Digest proof{};
  std::copy_n(in_.begin(), proof.size(), proof.begin());
  if (!same(proof, proof_of(Side::Client))) {
    return refuse(Reason::Secret,
                  fmt::format("{} has another secret than this side; give every rank of the job "
                              "the same one",
                              options_.peer));
  }
  if (!wants_what_the_other_wants()) {
    say_head(static_cast<std::uint8_t>(kRefused | static_cast<unsigned>(Reason::Encryption)));
    return find_disagreement();
  }
  say_head(kWelcome);
  state_ = State::Done;
}

/// Both codes are covered by the proofs.
bool Handshake::wants_what_the_other_wants() const {
  return client_hello_[kHead - 1] == server_hello_[kHead - 1];
}

void Handshake::find_disagreement() {
  const bool encrypts = options_.encryption == Encryption::Tls;
  state_ = State::Refused;
  disagrees_ = true;
  problem_ = fmt::format("{} {}, this side {}; {}", options_.peer,
                         encrypts ? "does not encrypt" : "encrypts", encrypts ? "does" : "does not",
                         options_.encryption_advice);
}

void Handshake::expect(Part part, std::size_t bytes) {
  part_ = part;
  in_filled_ = 0;
  in_expected_ = bytes;
}

std::span<const std::byte> Handshake::to_send() const noexcept {
  return std::span(out_).subspan(out_sent_);
}

void Handshake::sent(std::size_t bytes) {
  TRIREME_CHECK(bytes <= out_.size() - out_sent_, "sent more than was available");
  out_sent_ += bytes;
}

Digest Handshake::session_key() const {
  TRIREME_CHECK(state_ == State::Done, "no key before the handshake is done");
  return hmac_sha256(options_.secret.bytes(), {bytes_of("session"), client_hello_, server_hello_});
}

void Handshake::say(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void Handshake::say_head(std::uint8_t code) {
  say(std::as_bytes(std::span(kHandshakeMagic)));
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out_.push_back(static_cast<std::byte>(kProtocolVersion >> shift & 0xff));
  }
  out_.push_back(static_cast<std::byte>(code));
}

void Handshake::refuse(Reason reason, const std::string& problem) {
  state_ = State::Refused;
  problem_ = problem;
  say_head(static_cast<std::uint8_t>(kRefused | static_cast<unsigned>(reason)));
}

void Handshake::refused_by_peer(std::uint8_t code) {
  const std::string encryption =
      "one side encrypts, the other does not; " + options_.encryption_advice;
  const std::array<std::string_view, 6> reasons{
      "it gives no reason",
      "it does not recognize this side as Trireme; does something between the two change the "
      "bytes?",
      "its protocol version differs; run the same Trireme on every rank",
      "it serves another purpose; are the addresses swapped?",
      "its secret differs; give every rank of the job the same one, and check the address",
      encryption,
  };
  const std::size_t reason = code & ~kRefused;
  state_ = State::Refused;
  problem_ = fmt::format("{} refused this connection: {}", options_.peer,
                         reasons.at(reason < reasons.size() ? reason : 0));
}

std::uint8_t Handshake::own_code() const {
  const unsigned encrypted = options_.encryption == Encryption::Tls ? kEncrypted : 0U;
  return static_cast<std::uint8_t>(static_cast<unsigned>(options_.purpose) | encrypted);
}

Digest Handshake::proof_of(Side side) const {
  const auto key = options_.secret.bytes();
  const Digest server = hmac_sha256(key, {bytes_of("server"), client_hello_, server_hello_});
  if (side == Side::Server) {
    return server;
  }
  return hmac_sha256(key, {bytes_of("client"), client_hello_, server_hello_, server});
}

}  // namespace trireme::comm
