// Callers: incoming connections on a rank's listening socket, until they have identified themselves. Never blocks. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/net/channel.h"
#include "comm/net/socket.h"

namespace trireme::comm {

/// Sent first on a new connection, after the handshake: the caller's rank, and which of its connections this is.
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
  /// `options` are for the server side of the handshake. The listener must outlive this object.
  Callers(const Fd& listener, HandshakeOptions options);

  /// Accepts and advances all as far as possible; returns those that have identified themselves. Drops one that cannot
  /// prove that it belongs to the job, or takes too long; see admission.h for how many may try at a time. Throws
  /// Disagreement if one belongs to the job but only one side encrypts.
  [[nodiscard]] std::vector<Caller> advance();

  /// Whether no connection can be accepted now although one may be waiting.
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
