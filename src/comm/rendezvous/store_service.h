// StoreService: how a store's server answers the requests of its clients. Pure: takes requests,
// returns frames. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/rendezvous/store_table.h"
#include "comm/rendezvous/store_wire.h"

namespace trireme::comm {

/// A frame for a client.
struct Answer {
  std::uint64_t client = 0;
  std::string frame;
};

class StoreService {
 public:
  /// What to send now. A Get of a key without a value has no answer yet; the request that sets the
  /// value returns the answers for all waiting clients.
  [[nodiscard]] std::vector<Answer> handle(std::uint64_t client, Request request);
  /// The client has left: drops its pending requests.
  void forget(std::uint64_t client);
  /// How many Gets are waiting.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Waiter {
    std::uint64_t client = 0;
    std::uint32_t id = 0;
  };

  void wake(const std::string& key, std::vector<Answer>& answers);
  template <class Test>
  void forget_waiters(const Test& test);

  StoreTable table_;
  std::map<std::string, std::vector<Waiter>> waiters_;  ///< of keys without a value; never empty
};

}  // namespace trireme::comm
