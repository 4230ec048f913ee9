#include "comm/rendezvous/store_table.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::comm {

void check_key(const std::string& key) {
  if (key.empty() || key.size() > kLongestKey) {
    throw Error(ErrorKind::Usage, fmt::format("store: a key of {} bytes; it must have 1 to {}",
                                              key.size(), kLongestKey));
  }
}

void check_value(const std::string& key, const std::string& value) {
  if (value.size() > kLongestValue) {
    throw Error(ErrorKind::Usage,
                fmt::format("store: the value of key {} has {} bytes; at most {} are allowed",
                            in_quotes(key), value.size(), kLongestValue));
  }
}

void StoreTable::set(const std::string& key, std::string value) {
  check_key(key);
  check_value(key, value);
  values_[key] = std::make_shared<const std::string>(std::move(value));
}

std::string StoreTable::insert(const std::string& key, std::string value) {
  if (const Value old = find(key)) {
    return *old;
  }
  set(key, value);
  return value;
}

std::int64_t StoreTable::add(const std::string& key, std::int64_t delta) {
  check_key(key);
  const Value old = find(key);
  const std::optional<std::int64_t> number = old == nullptr ? 0 : parse_integer(*old);
  if (!number) {
    throw Error(ErrorKind::Usage, fmt::format("store: cannot add {} to key {}: its value {} is not "
                                              "a number",
                                              delta, in_quotes(key), in_quotes(*old)));
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) {
    throw Error(ErrorKind::Usage, fmt::format("store: {} and {} added to key {} are more than 64 "
                                              "bits",
                                              *number, delta, in_quotes(key)));
  }
  values_[key] = std::make_shared<const std::string>(std::to_string(sum));
  return sum;
}

StoreTable::Value StoreTable::find(const std::string& key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : at->second;
}

}  // namespace trireme::comm
