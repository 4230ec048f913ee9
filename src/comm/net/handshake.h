// The handshake: the first exchange between two processes, which proves to each that the other is Trireme, of the same
// version, and has the secret of the job. Pure: bytes in, bytes out, no socket (channel.h has that). One thread at a
// time.
//
//   client → server   head, nonce                                     45 bytes
//   server → client   head, nonce, HMAC(secret, "server" C S)         77 bytes
//   client → server   head, HMAC(secret, "client" C S server's HMAC)  45 bytes
//   server → client   head (welcome)                                  13 bytes
//
// head = "TRIREME\0", version (u32, little endian), code (u8); nonce = 32 random bytes; C and S are the head and nonce
// of client and server. The code is the purpose of the connection, or why it is refused; a refusal may replace any
// later message and is the last. Both nonces are in both HMACs, so recorded messages cannot be replayed; the labels
// keep one side from reflecting the other's proof. The server proves itself first: a client reveals nothing to a
// foreign server. A mismatch in the use of TLS is reported only after the proofs, so that both sides can trust the
// report.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/net/secret.h"

namespace trireme::comm {

inline constexpr std::array<char, 8> kHandshakeMagic{'T', 'R', 'I', 'R', 'E', 'M', 'E', '\0'};
inline constexpr std::uint32_t kProtocolVersion = 1;

/// The purpose of a connection. Each server serves one.
enum class Purpose : std::uint8_t { Store = 1, Data = 2, ParameterServer = 3 };
enum class Side : std::uint8_t { Client, Server };
/// What follows the handshake: plain bytes, or TLS 1.3 with a key derived from the secret.
enum class Encryption : std::uint8_t { None, Tls };

struct HandshakeOptions {
  Side side = Side::Client;
  Purpose purpose = Purpose::Store;
  Secret secret;
  Encryption encryption = Encryption::None;
  std::string peer;  ///< the other side's name, for messages: "127.0.0.1:4000"
  /// What the user has to do if only one side encrypts, for messages.
  std::string encryption_advice = "set WorldOptions::encrypt alike on every rank";
};

/// One side of a handshake. Feed it what arrives, send what it returns:
///
///   while (handshake.state() == Handshake::State::Going) {
///     … send handshake.to_send(), handshake.sent(n) …
///     … receive at most handshake.wanted() bytes, handshake.take(bytes) …
///   }
///   … send the rest of to_send(): the welcome, or the refusal …
class Handshake {
 public:
  enum class State : std::uint8_t { Going, Done, Refused };

  explicit Handshake(HandshakeOptions options);

  [[nodiscard]] State state() const noexcept { return state_; }
  /// How many bytes may be fed, at most 64; 0 once it is over. Never requests bytes beyond the handshake.
  [[nodiscard]] std::size_t wanted() const noexcept;
  /// Requires at most wanted() bytes.
  void take(std::span<const std::byte> bytes);

  /// Bytes still to send.
  [[nodiscard]] std::span<const std::byte> to_send() const noexcept;
  void sent(std::size_t bytes);

  /// Once Refused: why, in one line with the peer's name and the fix.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Once Refused: whether the other side has the secret, so belongs to the job, but is configured differently.
  [[nodiscard]] bool disagrees() const noexcept { return disagrees_; }
  /// The total number of bytes taken.
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  /// Once Done: a key unique to this connection.
  [[nodiscard]] Digest session_key() const;
  [[nodiscard]] const HandshakeOptions& options() const noexcept { return options_; }

 private:
  static constexpr std::size_t kHead = 13;
  static constexpr std::size_t kHello = kHead + 32;
  using Hello = std::array<std::byte, kHello>;

  /// The next part of the message.
  enum class Part : std::uint8_t { Head, HelloRest, Proof, Welcome };
  enum class Reason : std::uint8_t;

  void check_magic();
  void read_head();
  void read_hello_rest();
  void read_proof();
  void expect(Part part, std::size_t bytes);
  void say(std::span<const std::byte> bytes);
  void say_head(std::uint8_t code);
  void refuse(Reason reason, const std::string& problem);
  void refused_by_peer(std::uint8_t code);
  [[nodiscard]] std::uint8_t own_code() const;
  [[nodiscard]] Digest proof_of(Side side) const;
  [[nodiscard]] bool is_client() const { return options_.side == Side::Client; }
  [[nodiscard]] bool wants_what_the_other_wants() const;
  void find_disagreement();

  HandshakeOptions options_;
  State state_ = State::Going;
  Part part_ = Part::Head;
  Part after_head_ = Part::HelloRest;
  std::array<std::byte, 64> in_{};  ///< the part being received
  std::size_t in_filled_ = 0;
  std::size_t in_expected_ = kHead;
  std::size_t taken_ = 0;
  std::vector<std::byte> out_;
  std::size_t out_sent_ = 0;
  Hello client_hello_{};
  Hello server_hello_{};
  std::string problem_;
  bool disagrees_ = false;
};

}  // namespace trireme::comm
