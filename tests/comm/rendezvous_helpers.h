// Shared by the tests of src/comm/rendezvous.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/net/channel.h"
#include "comm/net/handshake.h"
#include "comm/net/socket.h"
#include "expect_error.h"
#include "trireme/error.h"

namespace trireme::comm {

/// Whether memory and time are unaffected by a sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Later than anything that succeeds.
inline Deadline soon() {
  return deadline_in({20.0});
}

inline std::ptrdiff_t entries(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory),
                       std::filesystem::directory_iterator());
}

/// Expects the same number of threads and descriptors at its end as at its beginning.
class LeakCheck {
 public:
  LeakCheck() = default;
  ~LeakCheck() {
    // A joined thread may stay in /proc for a moment.
    for (int i = 0; i < 200 && entries("/proc/self/task") > threads_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
#if !defined(__SANITIZE_THREAD__)  // it has its own thread, which starts at any time
    EXPECT_LE(entries("/proc/self/task"), threads_);
#endif
    EXPECT_EQ(entries("/proc/self/fd"), descriptors_);
  }
  LeakCheck(const LeakCheck&) = delete;
  LeakCheck& operator=(const LeakCheck&) = delete;

 private:
  std::ptrdiff_t threads_ = entries("/proc/self/task");
  std::ptrdiff_t descriptors_ = entries("/proc/self/fd");
};

/// Two connected sockets.
struct SocketPair {
  Fd client;
  Fd server;
};
inline SocketPair connected() {
  const Listener listener = listen_on();
  SocketPair pair;
  pair.client = connect_to(listener.address, soon());
  pair.server = accept_one(listener.socket, soon());
  return pair;
}

/// Calls the function until it is true; false after a few seconds.
inline bool becomes_true(const std::function<bool()>& test) {
  for (int i = 0; i < 1000; ++i) {
    if (test()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

/// Waits until the other side has closed the socket, discarding its data. False if it does not.
inline bool gets_closed(const Fd& socket, Deadline deadline) {
  std::vector<std::byte> waste(4096);
  for (;;) {
    const Transfer transfer = receive_some(socket, waste);
    if (transfer.outcome == Transfer::Outcome::Closed) {
      return true;
    }
    if (transfer.outcome != Transfer::Outcome::Moved && !wait_for(socket, Ready::Read, deadline)) {
      return false;
    }
  }
}

inline const Secret& job_secret() {
  static const Secret secret = Secret::from_text("the secret of these tests");
  return secret;
}

inline HandshakeOptions options_for(Side side) {
  return {.side = side,
          .purpose = Purpose::Store,
          .secret = job_secret(),
          .encryption = Encryption::None,
          .peer = side == Side::Client ? "the server" : "the client"};
}

/// The hello of a client of that version.
inline std::vector<std::byte> hello_of_version(std::uint8_t version) {
  const Handshake client(options_for(Side::Client));
  std::vector<std::byte> hello(client.to_send().begin(), client.to_send().end());
  hello[8] = std::byte{version};
  return hello;
}

/// Feeds a handshake as much of the bytes as it wants, in pieces of at most `piece`.
inline void feed(Handshake& side, std::span<const std::byte> bytes, std::size_t piece = 64) {
  while (side.wanted() > 0 && !bytes.empty()) {
    const std::size_t count = std::min({bytes.size(), side.wanted(), piece});
    side.take(bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

}  // namespace trireme::comm
