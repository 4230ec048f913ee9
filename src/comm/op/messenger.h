// Messenger: a world's mailbox with its network transport, and counters of the bytes sent. Callable from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/indexed_vector.h"
#include "comm/transport/transport.h"
#include "comm/wire/mailbox.h"
#include "trireme/comm.h"

namespace trireme::comm {

class Messenger {
 public:
  /// `network` must be polled for messages to move; nullptr if no peer needs one. Both must outlive this object.
  Messenger(Mailbox& mailbox, Transport* network) : mailbox_(mailbox), network_(network) {}

  [[nodiscard]] Mailbox& mailbox() { return mailbox_; }

  /// Moves messages. True if any moved.
  bool progress();

  void count_sent(Operation operation, std::int64_t bytes) {
    sent_[position_of(operation)].fetch_add(bytes, std::memory_order_relaxed);
  }
  void count_message(std::int64_t bytes) {
    sent_[SentBytes::kOperations].fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] SentBytes bytes_sent() const;

 private:
  Mailbox& mailbox_;
  Transport* network_;
  std::array<std::atomic<std::int64_t>, SentBytes::kOperations + 1> sent_{};  ///< last: messages
};

}  // namespace trireme::comm
