// Control: short messages between worlds themselves, and the exchange by which ranks make a group.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/op/op.h"
#include "trireme/schedule.h"

namespace trireme::comm {

class WorldCore;

enum class ControlKind : std::uint64_t {
  Inquiry = 1,  ///< "I wait in this call": a Record; answered if the answer differs
  Answer,       ///< a Record
  Fail,         ///< "I give this group up": why
  GivenUp,      ///< "I no longer talk to you: I had no sign of life from you"
  Agreement,    ///< an AgreementMessage
  Goodbye,      ///< "I leave the world"
  Farewell,     ///< "I heard it, and send nothing more"
  Exchange,     ///< a contribution to an exchange
  Beat,         ///< "I live"
};

/// When ranks were first known to have left or failed. What one sent before may still be arriving. One thread.
class Departures {
 public:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] Clock::time_point first_seen(Rank rank) {
    return seen_.emplace(rank, Clock::now()).first->second;
  }

 private:
  std::map<Rank, Clock::time_point> seen_;
};

/// Contributions that have arrived, until someone asks for them. Any thread.
class Exchanges {
 public:
  using Bytes = std::vector<std::byte>;
  void put(std::uint64_t context, Rank from, Bytes data);
  [[nodiscard]] std::optional<Bytes> take(std::uint64_t context, Rank from);

 private:
  Mutex mutex_;
  std::map<std::pair<std::uint64_t, Rank>, Bytes> data_ TRIREME_GUARDED_BY(mutex_);
};

/// All of some ranks tell each other something, by messages. A rank that dies, stops or leaves before, or does not come
/// in time, is an error.
class ExchangeOp : public Op {
 public:
  struct Options {
    std::uint64_t context = 0;  ///< the same on all of them, and new for every exchange
    std::vector<Rank> ranks{};  ///< of the world, with this one
    std::span<const std::byte> mine{};
  };
  ExchangeOp(WorldCore& world, Options options);

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;

  /// By place in `ranks`. Once done.
  [[nodiscard]] const std::vector<std::optional<Exchanges::Bytes>>& heard() const { return heard_; }

 private:
  [[nodiscard]] Progress listen();

  WorldCore& world_;
  Options options_;
  Departures left_;
  bool told_ = false;
  std::vector<std::optional<Exchanges::Bytes>> heard_;
};

}  // namespace trireme::comm
