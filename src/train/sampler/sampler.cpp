// The common part of all samplers, and those that need no communication: shards.
#include "trireme/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "train/data/random.h"
#include "train/sampler/order.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using train::Permutation;
using train::random_bits;

void require_in_sampler(bool condition, const std::string& otherwise) {
  if (!condition) {
    throw Error(ErrorKind::Usage, "sampler: " + otherwise);
  }
}

void check(const ShardOptions& options, Rank worker) {
  train::check_epoch(options.samples, options.epoch);
  require_in_sampler(options.workers >= 1,
                     fmt::format("{} workers; there must be at least one", options.workers));
  require_in_sampler(worker >= 0 && worker < options.workers,
                     fmt::format("worker {} of {}; they are numbered from 0 to {}", worker,
                                 options.workers, options.workers - 1));
  require_in_sampler(options.replication >= 1 && options.replication <= options.workers,
                     fmt::format("each sample in {} shards of {} workers; it can be in 1 to {}",
                                 options.replication, options.workers, options.workers));
}

/// The start of part `part` of the samples: the first samples % workers parts have one more than the others.
std::int64_t begin_of(const ShardOptions& options, std::int64_t part) {
  return part * (options.samples / options.workers) +
         std::min(part, options.samples % options.workers);
}

std::int64_t size_of(const ShardOptions& options, std::int64_t part) {
  return begin_of(options, part + 1) - begin_of(options, part);
}

class ShardSampler : public Sampler {
 public:
  ShardSampler(const ShardOptions& options, Rank worker)
      : options_(options), worker_(worker), shard_(options, worker) {}

 private:
  std::vector<SampleIndex> do_take(std::int64_t count) override {
    std::vector<SampleIndex> some;
    for (; place_ < shard_.size() && std::ssize(some) < count; ++place_) {
      some.push_back(shard_.at(place_));
    }
    if (some.empty() && unconfirmed() == 0) {
      ++options_.epoch;
      shard_ = Shard(options_, worker_);
      place_ = 0;
    }
    return some;
  }
  void do_confirm(std::int64_t /*count*/) override {}

  ShardOptions options_;
  Rank worker_;
  Shard shard_;
  std::int64_t place_ = 0;
};

}  // namespace

// Common to all samplers.

std::vector<SampleIndex> Sampler::take(std::int64_t count) {
  require_in_sampler(count >= 1, fmt::format("take({}); it must be at least 1", count));
  std::vector<SampleIndex> some = do_take(count);
  unconfirmed_ += std::ssize(some);
  return some;
}

void Sampler::confirm(std::int64_t count) {
  require_in_sampler(
      count >= 0 && count <= unconfirmed_,
      fmt::format("confirm({}); {} are taken and not confirmed", count, unconfirmed_));
  do_confirm(count);
  unconfirmed_ -= count;
}

// Shards.

Shard::Shard(const ShardOptions& options, Rank worker) : options_(options), worker_(worker) {
  check(options, worker);
  for (std::int64_t i = 0; i < options.replication; ++i) {
    size_ += size_of(options, (worker + i) % options.workers);
  }
}

SampleIndex Shard::at(std::int64_t place) const {
  require_in_sampler(place >= 0 && place < size_,
                     fmt::format("place {} is out of range in a shard of {}", place, size_));
  // Each epoch has a stream of random numbers; each worker's order is seeded with one of them.
  const std::uint64_t stream =
      random_bits(options_.seed, static_cast<std::uint64_t>(options_.epoch));
  std::int64_t rest =
      Permutation(size_, random_bits(stream, static_cast<std::uint64_t>(worker_))).at(place);
  std::int64_t part = worker_;
  while (rest >= size_of(options_, part)) {
    rest -= size_of(options_, part);
    part = (part + 1) % options_.workers;
  }
  return Permutation(options_.samples, options_.seed).at(begin_of(options_, part) + rest);
}

std::unique_ptr<Sampler> make_sampler(const ShardOptions& options, Rank worker) {
  return std::make_unique<ShardSampler>(options, worker);
}

// Orders and lists.

void train::check_epoch(std::int64_t samples, std::int64_t epoch) {
  require_in_sampler(samples >= 1, fmt::format("{} samples; there must be at least one", samples));
  require_in_sampler(epoch >= 0, fmt::format("epoch {}; they are numbered from 0", epoch));
}

Permutation train::order_of(const PoolOptions& options) {
  check_epoch(options.samples, options.epoch);
  return {options.samples, random_bits(options.seed, static_cast<std::uint64_t>(options.epoch))};
}

std::vector<std::vector<SampleIndex>> lists_by_speed(const PoolOptions& order,
                                                     std::span<const double> speeds) {
  const Permutation permutation = train::order_of(order);
  double total = 0;
  for (const double speed : speeds) {
    require_in_sampler(std::isfinite(speed) && speed >= 0,
                       fmt::format("a speed of {}; it must be a number from 0 on", speed));
    total += speed;
  }
  require_in_sampler(total > 0 && std::isfinite(total), "no rank has a speed above 0");
  std::vector<std::vector<SampleIndex>> lists(speeds.size());
  double before = 0;  // total speed of the ranks so far
  std::int64_t reached = 0;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    before += speeds[rank];
    const std::int64_t end = std::llround(before / total * static_cast<double>(order.samples));
    for (; reached < end; ++reached) {
      lists[rank].push_back(permutation.at(reached));
    }
  }
  return lists;
}

}  // namespace trireme
