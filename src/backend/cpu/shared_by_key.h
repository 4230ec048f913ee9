// SharedByKey: one value shared by all kernels with the same key, for as long as one of them exists.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace trireme::cpu {

/// Thread-safe. Files that are compiled for one instruction set each instantiate it with their own types.
template <class Key, class Value>
class SharedByKey {
 public:
  /// The existing value, or the result of `make(key)`.
  template <class Make>
  [[nodiscard]] std::shared_ptr<const Value> get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const Value>& kept = kept_[key];
    std::shared_ptr<const Value> value = kept.lock();
    if (value == nullptr) {
      value = std::make_shared<const Value>(make(key));
      kept = value;
    }
    return value;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Value>> kept_;
};

}  // namespace trireme::cpu
