// Control: short messages between worlds themselves, and the exchange by which ranks make a group.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "comm/op.h"
#include "trireme/schedule.h"

namespace trireme::comm {

class WorldCore;

enum class ControlKind : std::uint64_t {
  Inquiry = 1,  ///< "I wait in this call": a Record; answered if the answer differs
  Answer,       ///< a Record
  Fail,         ///< "I give this group up": why
  Goodbye,      ///< "I leave the world"
  Farewell,     ///< "I heard it, and send nothing more"
  Exchange,     ///< a contribution to an exchange
  Beat,         ///< "I live"
};

/// Ranks that have gone: what one said before may still be on its way, or not have been looked at. One thread.
class Departures {
 public:
  /// Whether nothing more is expected of it: for a while nothing was coming. `coming`: a message of it is half here.
  [[nodiscard]] bool is_final(Rank rank, bool coming);

 private:
  std::map<Rank, std::chrono::steady_clock::time_point> quiet_since_;
};

/// Contributions that have arrived, until someone asks for them. Any thread.
class Exchanges {
 public:
  using Bytes = std::vector<std::byte>;
  void put(std::uint64_t context, std::uint64_t round, Rank from, Bytes data);
  [[nodiscard]] std::optional<Bytes> take(std::uint64_t context, std::uint64_t round, Rank from);

 private:
  Mutex mutex_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, Rank>, Bytes> data_ TRIREME_GUARDED_BY(mutex_);
};

/// All of some ranks tell each other something, by messages.
class ExchangeOp : public Op {
 public:
  struct Options {
    std::uint64_t context = 0;  ///< the same on all of them, and new for every exchange
    std::uint64_t round = 0;
    std::vector<Rank> ranks{};  ///< of the world, with this one
    std::span<const std::byte> mine{};
    /// A rank that dies, stops or leaves before it spoke: left out, or an error. One that lives but
    /// does not come in time is always an error.
    enum class Lost { LeaveOut, Throw } lost = Lost::Throw;
    Seconds patience{};
  };
  ExchangeOp(WorldCore& world, Options options);

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;

  /// By place in `ranks`; nothing for those that were lost. Once done.
  [[nodiscard]] const std::vector<std::optional<Exchanges::Bytes>>& heard() const { return heard_; }

 private:
  [[nodiscard]] Progress listen();

  WorldCore& world_;
  Options options_;
  Departures gone_;
  bool told_ = false;
  std::vector<std::optional<Exchanges::Bytes>> heard_;
  std::vector<bool> lost_;
};

}  // namespace trireme::comm
