// SharedByKey: one value for all kernels that want the same, for as long as one of them is there.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace trireme::cpu {

/// Any thread may ask. Files that are compiled for one instruction set each bring types of their own.
template <class Key, class Value>
class SharedByKey {
 public:
  /// The value that is there, or the one that `make(key)` makes.
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
