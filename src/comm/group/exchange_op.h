// ExchangeOp: ranks exchange data by messages, to make a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/op/op.h"
#include "comm/world/departures.h"
#include "comm/world/exchanges.h"
#include "comm/world/world_core.h"

namespace trireme::comm {

/// Ranks send one another their data. It is an error if a rank dies, stops or leaves first, or does not join in time.
class ExchangeOp : public Op {
 public:
  struct Options {
    std::uint64_t context = 0;  ///< the same on all ranks, and new for every exchange
    std::vector<Rank> ranks{};  ///< of the world, including this one
    std::span<const std::byte> mine{};
  };
  ExchangeOp(WorldCore& world, Options options);

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;

  /// By index in `ranks`. Valid once done.
  [[nodiscard]] const std::vector<std::optional<Exchanges::Bytes>>& heard() const { return heard_; }

 private:
  [[nodiscard]] Progress listen();

  WorldCore& world_;
  Options options_;
  Departures left_;
  bool sent_ = false;
  std::vector<std::optional<Exchanges::Bytes>> heard_;
};

}  // namespace trireme::comm
