#include "ps/tools/chaos_tally.h"

#include <algorithm>
#include <cmath>

#include "ps/tools/chaos_tables.h"
#include "ps/tools/quantile.h"

namespace trireme::ps {
namespace {

constexpr double kMicro = 1e-6;

/// The longest operation that each strike delayed, in seconds: a push counts for the last strike before it ended.
std::vector<double> delays(const Ledgers& ledgers, std::span<const Strike> strikes, Micros lease) {
  std::vector<double> longest(strikes.size());
  for (const auto& ledger : ledgers) {
    for (std::uint64_t i = 0; i < (*ledger)->slow_count; ++i) {
      const SlowPush& push = (*ledger)->slow.at(i);
      const auto after = std::ranges::upper_bound(strikes, push.end, {}, &Strike::time);
      if (after == strikes.begin() || push.begin > (after - 1)->time + 2 * lease) {
        continue;
      }
      double& delay = longest[after - 1 - strikes.begin()];
      delay = std::max(delay, static_cast<double>(push.end - push.begin) * kMicro);
    }
  }
  return longest;
}

double median_latency(const Ledgers& ledgers) {
  std::array<std::uint64_t, std::tuple_size_v<decltype(LifeLedger::latencies)>> sums{};
  std::uint64_t total = 0;
  for (const auto& ledger : ledgers) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums.at(i) += (*ledger)->latencies.at(i);
      total += (*ledger)->latencies.at(i);
    }
  }
  std::size_t bucket = 0;
  for (std::uint64_t seen = sums[0]; seen < total / 2 && bucket + 1 < sums.size();) {
    seen += sums.at(++bucket);
  }
  return bucket_micros(bucket) * kMicro;
}

}  // namespace

void tally_counts(const SharedRecord<LifeLedger>& ledger, std::size_t life,
                  std::span<const float> counts, ChaosResult& result) {
  for (Key key = 0; key < kChaosKeys; ++key) {
    const auto count = static_cast<std::uint64_t>(counts[chaos_key(key, life)]);
    const std::uint64_t begun = ledger->begun.at(key);
    const std::uint64_t acknowledged = ledger->acknowledged.at(key);
    result.acknowledged += acknowledged;
    result.lost += acknowledged > count ? acknowledged - count : 0;
    result.doubled += count > begun ? count - begun : 0;
  }
  result.reads += ledger->reads;
  result.violations += ledger->missed_writes;
}

void tally_staleness(const Ledgers& ledgers, ChaosResult& result) {
  for (const auto& reader : ledgers) {
    for (std::size_t i = 0; i < ledgers.size(); ++i) {
      const bool is_demanded = !(*ledgers[i])->has_left_clock;
      result.violations += is_demanded && (*reader)->saw_stale.at(i + 1) ? 1 : 0;
    }
  }
}

namespace {

/// Of the shards that are, or are not, touched: the share of their throughput before the strike that is missing while the
/// cluster replaces the server.
std::optional<double> loss_of(const ShardWindows& windows, const Strike& strike, Micros lease,
                              bool is_touched) {
  constexpr Micros kBefore = 10 * ShardWindows::kWidth;
  double before = 0;
  double during = 0;
  for (std::size_t shard = 0; shard < strike.touched.size(); ++shard) {
    if (strike.touched[shard] == is_touched) {
      before += windows.per_window(shard, strike.time - kBefore, strike.time);
      during +=
          windows.per_window(shard, strike.time, strike.time + lease + 2 * ShardWindows::kWidth);
    }
  }
  return before > 0 ? std::optional(1 - during / before) : std::nullopt;
}

}  // namespace

void tally_throughput(const ShardWindows& windows, std::span<const Strike> strikes, Seconds lease,
                      ChaosResult& result) {
  const auto lease_micros = static_cast<Micros>(lease.count / kMicro);
  for (const bool is_touched : {false, true}) {
    std::vector<double> losses;
    for (const Strike& strike : strikes) {
      const bool is_kill = strike.kind == Strike::Kind::KillServer;
      if (const auto loss =
              is_kill ? loss_of(windows, strike, lease_micros, is_touched) : std::nullopt) {
        losses.push_back(*loss);
      }
    }
    if (!losses.empty()) {
      (is_touched ? result.touched_loss : result.untouched_loss) = quantile(losses, 0.5);
    }
  }
}

void tally_times(const Ledgers& ledgers, std::span<const Strike> strikes, Seconds lease,
                 ChaosResult& result) {
  const auto lease_micros = static_cast<Micros>(lease.count / kMicro);
  const std::vector<double> longest = delays(ledgers, strikes, lease_micros);
  std::vector<double> failovers;
  std::vector<double> moves;
  std::vector<double> restarts;
  for (std::size_t i = 0; i < strikes.size(); ++i) {
    if (strikes[i].kind == Strike::Kind::KillServer && longest[i] > 0) {
      failovers.push_back(longest[i]);
    } else if (strikes[i].kind == Strike::Kind::MoveShard) {
      moves.push_back(longest[i]);
    } else if (strikes[i].kind == Strike::Kind::Restart) {
      restarts.push_back(longest[i]);
    }
  }
  std::vector<double> joins;
  for (const auto& ledger : ledgers) {
    if (const std::uint64_t micros = (*ledger)->join_micros; micros != 0) {
      joins.push_back(static_cast<double>(micros) * kMicro);
    }
  }
  result.delaying_kills = failovers.size();
  result.failover_p50 = {quantile(failovers, 0.5)};
  result.failover_p99 = {quantile(failovers, 0.99)};
  result.move_p99 = {quantile(moves, 0.99)};
  result.restart_p99 = {quantile(restarts, 0.99)};
  result.join_p99 = {quantile(joins, 0.99)};
  result.push_p50 = {median_latency(ledgers)};
}

}  // namespace trireme::ps
