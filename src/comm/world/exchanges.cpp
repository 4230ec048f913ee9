#include "comm/world/exchanges.h"

namespace trireme::comm {

void Exchanges::put(std::uint64_t context, Rank from, Bytes data) {
  MutexLock lock(mutex_);
  data_[{context, from}] = std::move(data);
}

std::optional<Exchanges::Bytes> Exchanges::take(std::uint64_t context, Rank from) {
  MutexLock lock(mutex_);
  const auto it = data_.find({context, from});
  if (it == data_.end()) {
    return std::nullopt;
  }
  Bytes data = std::move(it->second);
  data_.erase(it);
  return data;
}

}  // namespace trireme::comm
