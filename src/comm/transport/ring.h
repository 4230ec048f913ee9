// Ring: a stream through memory shared by two ranks of one host. One ring per direction, in the receiver's memory; one
// writer, one reader, lock-free.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "comm/transport/bell.h"
#include "comm/wire/stream.h"

namespace trireme::comm {

/// Resides in shared memory. `written` and `read` count bytes since the start.
struct Ring {
  static constexpr std::size_t kBytes = std::size_t{128} << 10;
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::array<std::byte, kBytes> data;
};

class RingStream : public Stream {
 public:
  /// All three outlive the stream.
  RingStream(Ring& outgoing, Ring& incoming, Bell& peer)
      : outgoing_(outgoing), incoming_(incoming), peer_(peer) {}

  [[nodiscard]] std::size_t write(std::span<const std::byte> head,
                                  std::span<const std::byte> body) override;
  [[nodiscard]] std::size_t read(std::span<std::byte> into) override;
  [[nodiscard]] bool is_drained() const override {
    return incoming_.read.load(std::memory_order_relaxed) ==
           incoming_.written.load(std::memory_order_acquire);
  }

 private:
  Ring& outgoing_;
  Ring& incoming_;
  Bell& peer_;
};

}  // namespace trireme::comm
