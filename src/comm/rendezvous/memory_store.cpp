#include "comm/rendezvous/memory_store.h"

#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::comm {

void MemoryStore::set(const std::string& key, std::string value) {
  const MutexLock lock(mutex_);
  table_.set(key, std::move(value));
  changed_.notify_all();
}

std::string MemoryStore::insert(const std::string& key, std::string value) {
  const MutexLock lock(mutex_);
  std::string present = table_.insert(key, std::move(value));
  changed_.notify_all();
  return present;
}

std::string MemoryStore::get(const std::string& key, Deadline deadline) {
  check_key(key);
  const Clock::time_point begin = Clock::now();
  const MutexLock lock(mutex_);
  for (;;) {
    if (const StoreTable::Value value = table_.find(key)) {
      return *value;
    }
    if (passed(deadline)) {
      throw Error(ErrorKind::Peer, fmt::format("store: key {} was not set within {}",
                                               in_quotes(key), trireme::to_text(since(begin))));
    }
    changed_.wait_until(mutex_, deadline);
  }
}

std::int64_t MemoryStore::add(const std::string& key, std::int64_t delta) {
  const MutexLock lock(mutex_);
  const std::int64_t sum = table_.add(key, delta);
  changed_.notify_all();
  return sum;
}

}  // namespace trireme::comm
