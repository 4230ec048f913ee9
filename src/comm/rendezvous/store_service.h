// StoreService: what a store's server answers to the requests of its clients. Pure: requests in,
// frames out. One thread at a time.
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
  /// What is to be sent now. A Get of a key without value has no answer yet; the request that gives
  /// it one has the answers for all who wait.
  [[nodiscard]] std::vector<Answer> handle(std::uint64_t client, Request request);
  /// The client has left: nothing is for it any more.
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
  std::map<std::string, std::vector<Waiter>> waiters_;  ///< of keys without value; none is empty
};

}  // namespace trireme::comm
