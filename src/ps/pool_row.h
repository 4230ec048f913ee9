// The rows of the update "pool". Values; callable from any thread.
//
// A stored row is the next part, the last, then part and owner of each worker's ticket; its state has the parts that were
// abandoned, with their owners. A pushed row is a request, the worker, and two numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::ps {

enum class PoolRequest : std::uint8_t { Open, Take, Stop, Abandon };

struct PoolRow {
  static constexpr std::size_t kNext = 0;
  static constexpr std::size_t kLast = 1;
  static constexpr std::size_t kTickets = 2;
  static constexpr float kNone = -1;  ///< no part
};

}  // namespace trireme::ps
