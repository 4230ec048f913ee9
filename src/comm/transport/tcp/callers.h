// Callers: those who connect to a rank's listening socket, until they have identified themselves. Never
// blocks. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/net/channel.h"
#include "comm/net/socket.h"

namespace trireme::comm {

/// Sent first on a new connection, after the handshake: who calls, and which of its connections.
struct Introduction {
  std::int32_t rank = 0;
  std::int32_t connection = 0;
};

/// A peer of the job that has called.
struct Caller {
  Introduction who{};
  Channel channel;
};

class Callers {
 public:
  /// `options` are for the server's side of the handshake. The listener outlives it.
  Callers(const Fd& listener, HandshakeOptions options);

  /// Accepts and continues with all as far as possible; returns those that have identified themselves. One
  /// who cannot prove that it belongs to the job, or takes too long, is dropped; for how many may try
  /// at a time see admission.h. Throws Disagreement if one belongs to the job and encrypts otherwise.
  [[nodiscard]] std::vector<Caller> advance();

  /// Whether nobody can be accepted now though somebody may be waiting.
  [[nodiscard]] bool is_full() const;

 private:
  struct Candidate {
    Caller caller;
    Clock::time_point since = Clock::now();
    std::size_t heard = 0;  ///< bytes of the introduction
    bool over = false;      ///< it has identified itself, or is dropped
  };

  void accept_all();
  [[nodiscard]] bool make_room();
  [[nodiscard]] std::size_t strangers() const;
  bool drop_oldest_stranger();
  /// True once it has identified itself.
  bool advance(Candidate& candidate);

  const Fd& listener_;
  HandshakeOptions options_;
  std::vector<Candidate> candidates_;  ///< oldest first
};

}  // namespace trireme::comm
