// The rules of a Store's keys and values, for all implementations. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "comm/rendezvous/store.h"

namespace trireme::comm {

/// Throws Error(Usage) if the key is empty or too long.
void check_key(const std::string& key);
/// Throws Error(Usage) if the value is too long.
void check_value(const std::string& key, const std::string& value);

/// Keys and their values. Values are shared, not copied, with their readers.
class StoreTable {
 public:
  using Value = std::shared_ptr<const std::string>;

  // As in Store.
  void set(const std::string& key, std::string value);
  std::string insert(const std::string& key, std::string value);
  std::int64_t add(const std::string& key, std::int64_t delta);
  /// nullptr if there is none.
  [[nodiscard]] Value find(const std::string& key) const;

 private:
  std::map<std::string, Value> values_;
};

}  // namespace trireme::comm
