// LoopCounters: what an event loop has received and sent, as metrics. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "ps/protocol/message.h"
#include "trireme/ps_metrics.h"

namespace trireme::ps {

class LoopCounters {
 public:
  void received(const Message& message) { count(received_, message); }
  void sent(const Message& message) { count(sent_, message); }
  void refused() { ++refused_; }
  void append_to(std::vector<MetricSample>& samples) const;

 private:
  struct Direction {
    std::array<std::uint64_t, std::variant_size_v<Message>> messages{};
    std::uint64_t floats = 0;
  };
  static void count(Direction& direction, const Message& message);

  Direction received_;
  Direction sent_;
  std::uint64_t refused_ = 0;
};

}  // namespace trireme::ps
