// Samplers: which worker trains on which samples. Four strategies, one interface:
//
// - even: the samples are split into shards, one per worker;
// - overlapping: each sample is in the shards of R workers, so that any R-1 of them may fail;
// - lists: a master assigns samples to each worker;
// - pool: a master hands the next samples to whichever worker requests them, so that fast workers do more.
//
//   while (!(batch = sampler.take(32)).empty()) {   // empty: the epoch is over
//     train_on(batch);
//     sampler.confirm(std::ssize(batch));           // consumed
//   }
//
// Threads. Shard: any. Samplers: one thread at a time, and where there is a master, calls on a sampler are calls on its
// World. See docs/sampling.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm.h"

namespace trireme {

/// A sample's index in the data, from 0.
using SampleIndex = std::int64_t;

/// A worker's source of samples, epoch after epoch.
class Sampler {
 public:
  Sampler() = default;
  virtual ~Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// The next samples, at most `count`. When the result is empty and everything taken is confirmed, the epoch is over
  /// and the next call starts the next one; otherwise more samples may follow after the confirmation. Throws
  /// Error(Usage) if count < 1, and CommError if the master has failed or has given up on this worker.
  [[nodiscard]] std::vector<SampleIndex> take(std::int64_t count);
  /// Marks the first `count` unconfirmed samples as consumed. If it throws as take() does, they do not count as
  /// consumed by this worker. Throws Error(Usage) if fewer were taken.
  void confirm(std::int64_t count);
  /// Taken but not confirmed.
  [[nodiscard]] std::int64_t unconfirmed() const noexcept { return unconfirmed_; }

 protected:
  [[nodiscard]] virtual std::vector<SampleIndex> do_take(std::int64_t count) = 0;
  virtual void do_confirm(std::int64_t count) = 0;

 private:
  std::int64_t unconfirmed_ = 0;
};

// Shards: each worker's samples follow from a few numbers, without communication.

struct ShardOptions {
  std::int64_t samples = 0;
  Rank workers = 1;
  /// How many shards contain each sample. 1: an even split.
  Rank replication = 1;
  /// Determines which samples are in which shard, and their order. A different seed per epoch gives different shards
  /// each time.
  std::uint64_t seed = 0;
  /// Changes the order but not the samples, so that a worker needs only its shard's data.
  std::int64_t epoch = 0;
};

/// The samples of a worker in an epoch, in random order, computed on demand.
///
/// A random order of all samples is split into as many parts as there are workers, whose sizes differ by at most one.
/// Worker w has part w and the next replication-1 parts, cyclically. So the shards of an even split contain each sample
/// once; with replication R the shards of any `workers - (R-1)` workers contain all samples. With fewer samples than
/// workers, some parts are empty.
class Shard {
 public:
  /// Throws Error(Usage) saying which number is invalid.
  Shard(const ShardOptions& options, Rank worker);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Throws Error(Usage) unless 0 <= place < size().
  [[nodiscard]] SampleIndex at(std::int64_t place) const;

 private:
  ShardOptions options_;
  Rank worker_;
  std::int64_t size_ = 0;
};

/// Hands out the shard of a worker, starting with options.epoch. Confirming only counts. Throws as Shard does.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const ShardOptions& options, Rank worker);

// With a master: one rank of a group hands out samples, the others take them.

/// Gets its samples from the master, a rank of the group. Called by every rank but the master, which creates a
/// SampleMaster at the same time. take() waits while nothing is left to take but other workers may still fail. Its
/// destructor notifies the master that this worker takes no more; its unconfirmed samples go to the others. A worker
/// must call again within 30 deadlines of its World, or the master gives up on it. Must not outlive the World.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(Group& group, Rank master);

/// A random order of all samples.
struct PoolOptions {
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

/// The list of each rank: the order of all samples, split in proportion to the ranks' speeds (the master's speed is 0).
/// Throws Error(Usage) if there are no samples, or speeds are negative, not finite or all 0.
[[nodiscard]] std::vector<std::vector<SampleIndex>> lists_by_speed(const PoolOptions& order,
                                                                   std::span<const double> speeds);

/// The outcome of an epoch.
struct ServeReport {
  std::vector<std::int64_t> consumed{};  ///< by rank
  std::int64_t left_over = 0;            ///< not consumed, because no worker was left
  std::map<Rank, std::string> lost{};    ///< failed workers, and why: died, stopped, late, left
};

/// Hands samples to the other ranks of a group. Each sample is consumed exactly once, whoever is slow or dies:
/// *consumed* means that a worker has confirmed it and the master has recorded that. Samples that a failed worker took
/// but did not confirm go to others, so they may have been trained on twice, but confirm() returns for a sample on at
/// most one worker.
///
/// Only serves: this rank's thread is busy until an epoch is over. Must not outlive the World.
class SampleMaster {
 public:
  using OnConsumed = std::function<void(Rank worker, std::span<const SampleIndex> samples)>;

  /// Called while all others of the group call make_sampler(group, this rank). A rank that dies during the call counts
  /// as lost. Calls `on_consumed` for each confirmation, in order, before acknowledging it to the worker; it must not
  /// throw.
  explicit SampleMaster(Group& group, OnConsumed on_consumed = {});
  ~SampleMaster();
  SampleMaster(const SampleMaster&) = delete;
  SampleMaster& operator=(const SampleMaster&) = delete;

  /// One epoch in which each request gets the next samples of the order. Returns once all are consumed and the
  /// workers have been notified, or no worker is left. Throws Error(Usage) if there are no samples.
  ServeReport serve_pool(const PoolOptions& options);
  /// One epoch in which each rank gets the samples of its own list, in this order. Lists may overlap. Samples left by a
  /// failed worker go to workers that have finished their lists. Throws Error(Usage) unless there is a list for each
  /// rank and the master's is empty.
  ServeReport serve_lists(const std::vector<std::vector<SampleIndex>>& lists);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trireme
