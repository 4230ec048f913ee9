#include "comm/op/messenger.h"

#include <chrono>

namespace trireme::comm {

bool Messenger::progress() {
  if (network_ != nullptr) {
    network_->poll(std::chrono::milliseconds(0));
  }
  return mailbox_.progress();
}

SentBytes Messenger::bytes_sent() const {
  SentBytes sent;
  for (std::size_t i = 0; i < SentBytes::kOperations; ++i) {
    sent.by_operation[i] = sent_[i].load(std::memory_order_relaxed);
  }
  sent.messages = sent_[SentBytes::kOperations].load(std::memory_order_relaxed);
  return sent;
}

}  // namespace trireme::comm
