#include "comm/direct/direct_cost.h"

#include <algorithm>
#include <cmath>

#include "comm/direct/direct_limits.h"
#include "comm/direct/staging.h"

namespace trireme::comm {
namespace {

/// The work of one rank, in bytes.
struct Work {
  double copied = 0;    ///< touched in the caller's buffers, copying
  double combined = 0;  ///< touched in the caller's buffers, combining
  double staged = 0;    ///< written to staging memory
  double fetched = 0;   ///< read from a peer's staging memory
  double peeked = 0;    ///< copied from or to a peer's private memory through the kernel
  double peeks = 0;     ///< number of such copies
};

/// The work of the busiest rank, or of the root; and of the others, if different.
struct Parts {
  Work first{};
  Work other{};
  Rank firsts = 1;       ///< number of ranks with the first rank's work
  bool in_turn = false;  ///< one consumes the other's output
  double windows = 1;
  double waits = 1;
  double footprint = 0;  ///< of one rank's caller buffers
  double slowness = 1;   ///< of combining, relative to f32, in cache
};

bool is_combined_vector(Operation operation) {
  return operation == Operation::Allreduce || operation == Operation::Reduce;
}

double input_bytes(Operation operation, double n, double block) {
  return operation == Operation::Allgather || operation == Operation::Gather ? block : n;
}

/// Peers read and write the callers' buffers.
Parts parts_in_sight(const DirectQuery& query, double n, double block) {
  const Rank p = query.ranks;
  switch (query.operation) {
    case Operation::Allreduce: {
      // Writing into the others' outputs invalidates their cache lines, unless the stores bypass the caches.
      const double taken = n > static_cast<double>(kStreamAbove) ? 0 : n - block;
      return {.first = {.combined = 2 * n - taken, .fetched = taken},
              .firsts = p,
              .waits = 2,
              .footprint = 2 * n};
    }
    case Operation::Reduce:
    case Operation::ReduceScatter:
      return {.first = {.combined = n + block}, .firsts = p, .waits = 2, .footprint = n + block};
    case Operation::Broadcast:
      if (is_shared_write(query.operation, p, query.bytes.count)) {
        return {.first = {.copied = n}, .firsts = p, .waits = 2, .footprint = 2 * n};
      }
      return {.first = {.copied = 2 * n}, .firsts = p - 1, .waits = 2, .footprint = 2 * n};
    case Operation::Scatter:
      return {.first = {.copied = 2 * block}, .firsts = p, .waits = 2, .footprint = 2 * block};
    case Operation::Gather:
      if (is_shared_write(query.operation, p, query.bytes.count)) {
        return {.first = {.copied = 2 * block}, .firsts = p, .waits = 2, .footprint = n};
      }
      return {.first = {.copied = 2 * n}, .waits = 2, .footprint = 2 * n};
    case Operation::Allgather:
      if (is_shared_write(query.operation, p, query.bytes.count)) {
        return {.first = {.copied = n + block}, .firsts = p, .waits = 2, .footprint = n + block};
      }
      [[fallthrough]];
    case Operation::Alltoall:
      return {.first = {.copied = 2 * n}, .firsts = p, .waits = 2, .footprint = 2 * n};
    case Operation::Barrier:
      break;
  }
  return {};
}

/// Short inputs that every rank combines for itself.
Parts parts_alone(const DirectQuery& query, double n) {
  const double others = static_cast<double>(query.ranks - 1);
  Parts parts{.first = {.copied = n, .combined = 2 * n, .staged = n, .fetched = others * n},
              .firsts = query.ranks,
              .footprint = 2 * n};
  if (query.operation == Operation::Reduce) {
    parts.first = {.combined = 2 * n, .fetched = others * n};
    parts.firsts = 1;
    parts.other = {.copied = n, .staged = n};
    parts.in_turn = true;
  }
  return parts;
}

/// Through staging memory, whole or in chunks.
Parts parts_staged(const DirectQuery& query, double n, double block) {
  const Rank p = query.ranks;
  const double rest = n - block;
  switch (query.operation) {
    case Operation::Allreduce:
      return {.first = {.copied = 2 * rest + block,
                        .combined = 2 * block,
                        .staged = n,
                        .fetched = 2 * rest},
              .firsts = p,
              .footprint = 2 * n};
    case Operation::Reduce:
      return {
          .first = {.copied = 2 * rest, .combined = 2 * block, .staged = rest, .fetched = 2 * rest},
          .other = {.copied = rest, .combined = block, .staged = n, .fetched = rest},
          .footprint = 2 * n};
    case Operation::ReduceScatter:
      return {.first = {.copied = rest, .combined = 2 * block, .staged = rest, .fetched = rest},
              .firsts = p,
              .footprint = n + block};
    case Operation::Broadcast:
      return {.first = {.copied = n, .staged = n},
              .other = {.copied = n, .fetched = n},
              .in_turn = true,
              .footprint = n};
    case Operation::Scatter:
      return {.first = {.copied = rest + 2 * block, .staged = rest},
              .other = {.copied = block, .fetched = block},
              .in_turn = true,
              .footprint = n + block};
    case Operation::Gather:
      return {.first = {.copied = rest + 2 * block, .fetched = rest},
              .other = {.copied = block, .staged = block},
              .in_turn = true,
              .footprint = n + block};
    case Operation::Allgather:
      return {.first = {.copied = n + 2 * block, .staged = block, .fetched = rest},
              .firsts = p,
              .footprint = n + block};
    case Operation::Alltoall:
      return {.first = {.copied = 2 * n, .staged = rest, .fetched = rest},
              .firsts = p,
              .footprint = 2 * n};
    case Operation::Barrier:
      break;
  }
  return {};
}

/// Data from or to a root, copied by the kernel.
Parts parts_fetched_at_root(const DirectQuery& query, double n, double block) {
  const bool vector = query.operation == Operation::Broadcast;
  const double moved = vector ? n : block;
  Parts parts{.first = {.copied = vector ? 0 : 2 * block},
              .other = {.peeked = moved, .peeks = 1},
              .waits = 2,
              .footprint = vector ? n : n + block};
  const auto length = static_cast<std::int64_t>(moved);
  if (is_halved(query.operation, query.ranks, length)) {
    const auto fetched = static_cast<double>(fetched_of_halved(query.operation, length));
    parts.other.peeked = query.operation == Operation::Gather ? moved - fetched : fetched;
    parts.first.peeked = moved - parts.other.peeked;
    parts.first.peeks = 1;
  }
  return parts;
}

/// The kernel copies between the callers' buffers.
Parts parts_fetched(const DirectQuery& query, double n, double block) {
  if (has_root(query.operation)) {
    return parts_fetched_at_root(query, n, block);
  }
  return {.first = {.copied = 2 * block,
                    .peeked = n - block,
                    .peeks = static_cast<double>(query.ranks - 1)},
          .firsts = query.ranks,
          .waits = 2,
          .footprint = 2 * n};
}

Parts parts_of(const DirectQuery& query) {
  const auto n = static_cast<double>(query.bytes.count);
  const double block = n / query.ranks;
  const double input = input_bytes(query.operation, n, block);
  const bool vector = is_combined_vector(query.operation);
  const bool copied = query.sight == Sight::Hidden || input <= static_cast<double>(kCopyAnyway) ||
                      (vector && input <= static_cast<double>(kCombineAlone));
  if (!copied) {
    return parts_in_sight(query, n, block);
  }
  const double moved = query.operation == Operation::Broadcast ? n : block;
  if (query.sight == Sight::Hidden &&
      is_fetched(query.operation, query.ranks, static_cast<std::int64_t>(moved))) {
    return parts_fetched(query, n, block);
  }
  if (is_staged_whole(query.operation, query.ranks, static_cast<std::int64_t>(input))) {
    return vector ? parts_alone(query, n) : parts_staged(query, n, block);
  }
  Parts parts = parts_staged(query, n, block);
  parts.windows = std::ceil(input / static_cast<double>(kChunkBytes));
  parts.waits = 1 + parts.windows * (vector ? 3 : 2);
  return parts;
}

/// Interpolates linearly over the logarithm of the footprint; constant beyond the points.
MemoryCost rate_at(const std::vector<MemoryCost>& curve, double footprint) {
  const auto above = std::ranges::find_if(curve, [&](const MemoryCost& point) {
    return static_cast<double>(point.footprint.count) >= footprint;
  });
  if (above == curve.begin() || above == curve.end()) {
    return above == curve.end() ? curve.back() : curve.front();
  }
  const MemoryCost& low = *(above - 1);
  const auto first = static_cast<double>(low.footprint.count);
  const double part =
      std::log(footprint / first) / std::log(static_cast<double>(above->footprint.count) / first);
  const auto between = [&](Seconds a, Seconds b) {
    return Seconds{a.count + part * (b.count - a.count)};
  };
  return {{}, between(low.alone, above->alone), between(low.together, above->together)};
}

/// For one of `active` ranks that work at the same time: its share, once memory is the bottleneck.
double touch(const std::vector<MemoryCost>& curve, double footprint, int active, int cores) {
  const MemoryCost rate = rate_at(curve, footprint);
  const double shared = rate.together.count * std::min(active, cores) / cores;
  return active <= 1 ? rate.alone.count : std::max(rate.alone.count, shared);
}

double time_of(const Work& work, const Parts& parts, int active, const HostCosts& costs) {
  const int cores = costs.cores;
  const PassCost passing = costs.passing();
  return work.copied * touch(costs.copy, parts.footprint, active, cores) +
         work.combined * touch(costs.combine, parts.footprint, active, cores) * parts.slowness +
         work.staged * passing.write.count + work.fetched * passing.read.count +
         work.peeks * costs.peek.alpha.count + work.peeked * costs.peek.beta.count;
}

double slowness_of(DType dtype, const HostCosts& costs) {
  const double plain = costs.gamma(to_text(DType::F32)).count;
  return plain > 0 ? std::max(1.0, costs.gamma(to_text(dtype)).count / plain) : 1;
}

/// The time until the last rank is done: that of the slower part, repeated for each turn that ranks without a core of
/// their own have to wait; if one part consumes the other's output, plus the faster part's share of one window before
/// or after.
double moving_time(const Parts& parts, Rank ranks, const HostCosts& costs) {
  const Rank others = ranks - parts.firsts;
  const bool idle_others = others == 0 || time_of(parts.other, parts, 1, costs) == 0;
  const bool together = !idle_others && (!parts.in_turn || parts.windows > 1);
  const double first = time_of(parts.first, parts, together ? ranks : parts.firsts, costs);
  const double other = time_of(parts.other, parts, together ? ranks : others, costs);
  const double slower = std::max(first, other);
  const double all = parts.firsts * first + others * other;
  return std::max(slower, all / costs.cores) +
         (parts.in_turn ? std::min(first, other) / parts.windows : 0);
}

}  // namespace

Seconds predict_direct(const DirectQuery& query, const HostCosts& costs) {
  if (query.ranks == 1) {
    return {};
  }
  Parts parts = parts_of(query);
  parts.slowness = slowness_of(query.dtype, costs);
  const RendezvousCost wait = costs.wait_of(query.ranks);
  const double waiting = wait.first.count + (parts.waits - 1) * wait.next.count;
  const bool nothing = query.operation == Operation::Barrier || query.bytes.count == 0;
  return {waiting + (nothing ? 0 : moving_time(parts, query.ranks, costs))};
}

Seconds crowding(Bytes footprint, Rank active, const HostCosts& costs) {
  const auto bytes = static_cast<double>(footprint.count);
  return {std::max(0.0, touch(costs.copy, bytes, std::max(active, 2), costs.cores) -
                            touch(costs.copy, bytes, 2, costs.cores))};
}

Bytes least_traffic(Operation operation, Rank ranks, Bytes bytes) {
  const std::int64_t n = bytes.count;
  const std::int64_t p = ranks;
  switch (operation) {
    case Operation::Allreduce:
    case Operation::Alltoall:
      return {2 * p * n};
    case Operation::Reduce:
    case Operation::ReduceScatter:
    case Operation::Allgather:
      return {(p + 1) * n};
    case Operation::Broadcast:
      return {p * n};
    case Operation::Scatter:
    case Operation::Gather:
      return {2 * n};
    case Operation::Barrier:
      break;
  }
  return {};
}

Seconds direct_floor(const DirectQuery& query, const HostCosts& costs) {
  const auto bytes =
      static_cast<double>(least_traffic(query.operation, query.ranks, query.bytes).count);
  const int active = std::min<int>(query.ranks, costs.cores);
  const double each = bytes / active;
  return {each * touch(costs.copy, each, active, costs.cores)};
}

}  // namespace trireme::comm
