// MemoryStore: a Store for ranks that are threads of one process. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_table.h"

namespace trireme::comm {

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, std::string value) override;
  std::string insert(const std::string& key, std::string value) override;
  [[nodiscard]] std::string get(const std::string& key, Deadline deadline) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;

 private:
  Mutex mutex_;
  CondVar changed_;
  StoreTable table_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
