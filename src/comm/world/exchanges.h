// Exchanges: other ranks' contributions to an exchange, kept until this rank takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// Callable from any thread.
class Exchanges {
 public:
  using Bytes = std::vector<std::byte>;
  void put(std::uint64_t context, Rank from, Bytes data);
  [[nodiscard]] std::optional<Bytes> take(std::uint64_t context, Rank from);

 private:
  Mutex mutex_;
  std::map<std::pair<std::uint64_t, Rank>, Bytes> data_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
