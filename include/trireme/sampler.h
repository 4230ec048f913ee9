// Samplers: which worker trains on which samples. Four ways, one interface:
//
// - even: the samples are cut into shards, one for each worker;
// - overlapping: each sample is in the shards of R workers, so that any R-1 of them may be lost;
// - lists: a master decides the samples of each worker;
// - pool: a master gives the next samples to whoever asks, so that fast workers do more.
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

/// A sample's number in the data, from 0 on.
using SampleIndex = std::int64_t;

/// Where a worker gets its samples from, epoch after epoch.
class Sampler {
 public:
  Sampler() = default;
  virtual ~Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// The next samples, at most `count`. None: if all that was taken is confirmed, the epoch is over, and the next call
  /// is for the next one; if not, there may be more once it is. Throws Error(Usage) if count < 1, and CommError if the
  /// master is gone or has given this worker up.
  [[nodiscard]] std::vector<SampleIndex> take(std::int64_t count);
  /// The first `count` of those that were taken and not confirmed are consumed. Throws as take() does; then they do not
  /// count as consumed by this worker. Throws Error(Usage) if so many were not taken.
  void confirm(std::int64_t count);
  /// Taken and not confirmed.
  [[nodiscard]] std::int64_t unconfirmed() const noexcept { return unconfirmed_; }

 protected:
  [[nodiscard]] virtual std::vector<SampleIndex> do_take(std::int64_t count) = 0;
  virtual void do_confirm(std::int64_t count) = 0;

 private:
  std::int64_t unconfirmed_ = 0;
};

// Shards: what each worker has follows from a few numbers; nobody needs to be asked.

struct ShardOptions {
  std::int64_t samples = 0;
  Rank workers = 1;
  /// In how many shards each sample is. 1: an even split.
  Rank replication = 1;
  /// Which samples are in which shard, and their order. Another one for each epoch: shards of other samples each time.
  std::uint64_t seed = 0;
  /// Another order of the same samples, so that a worker needs no data but its shard's.
  std::int64_t epoch = 0;
};

/// The samples of a worker in an epoch, in a random order. Takes no memory for them.
///
/// A random order of all samples is cut into as many parts as there are workers, whose sizes differ by at most one.
/// Worker w has part w and the replication-1 parts after it, the first after the last. So the shards of an even split
/// have each sample once; with replication R the shards of any `workers - (R-1)` workers have all samples. Where there
/// are fewer samples than workers, some parts are empty.
class Shard {
 public:
  /// Throws Error(Usage) that says which number cannot be.
  Shard(const ShardOptions& options, Rank worker);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Throws Error(Usage) unless 0 <= place < size().
  [[nodiscard]] SampleIndex at(std::int64_t place) const;

 private:
  ShardOptions options_;
  Rank worker_;
  std::int64_t size_ = 0;
};

/// Gives out the shard of a worker, from options.epoch on. Confirming only counts. Throws as Shard does.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const ShardOptions& options, Rank worker);

// A master: one rank of a group gives out, the others take.

/// Gets its samples from the master, a place of the group. Called by every rank but the master, which makes a
/// SampleMaster at the same time. take() waits while nothing is left to take but others may still be lost. Its
/// destructor tells the master that this worker takes no more; what it has not confirmed goes to the others. A worker
/// must come back within 30 deadlines of its World, or the master gives it up. Must not outlive the World.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(Group& group, Rank master);

/// A random order of all samples.
struct PoolOptions {
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

/// The list of each rank: the order of all samples, cut in proportion to how fast the ranks are (the master's speed is
/// 0). Throws Error(Usage) on no samples, or speeds that are negative, not finite or all 0.
[[nodiscard]] std::vector<std::vector<SampleIndex>> lists_by_speed(const PoolOptions& order,
                                                                   std::span<const double> speeds);

/// How an epoch went.
struct ServeReport {
  std::vector<std::int64_t> consumed{};  ///< by rank
  std::int64_t left_over = 0;            ///< not consumed, as no worker was left
  std::map<Rank, std::string>
      lost{};  ///< workers that are gone, and why: died, stopped, late, left
};

/// Gives samples to the other ranks of a group. Each sample given is consumed exactly once, whoever is slow or dies:
/// *consumed* is what a worker has confirmed and the master has heard of. What a lost worker has taken and not confirmed
/// is given to others, so it may have been computed on twice, but a worker whose confirm() returned is the only one whose
/// confirm() returned for these samples.
///
/// Serves and does nothing else: this rank's thread is busy until an epoch is over. Must not outlive the World.
class SampleMaster {
 public:
  using OnConsumed = std::function<void(Rank worker, std::span<const SampleIndex> samples)>;

  /// While all others of the group call make_sampler(group, this rank). One that dies meanwhile is lost.
  /// `on_consumed` is told of each confirmation, in their order, before the worker hears that it
  /// counts; it must not throw.
  explicit SampleMaster(Group& group, OnConsumed on_consumed = {});
  ~SampleMaster();
  SampleMaster(const SampleMaster&) = delete;
  SampleMaster& operator=(const SampleMaster&) = delete;

  /// One epoch in which whoever asks gets the next samples of the order. Returns once all are consumed and the workers
  /// were told so, or no worker is left. Throws Error(Usage) if there are no samples.
  ServeReport serve_pool(const PoolOptions& options);
  /// One epoch in which each rank gets the samples of its own list, in this order. A list may have any samples, also
  /// those of others. What a lost worker leaves goes to those that are through with theirs. Throws Error(Usage) unless
  /// there is a list for each rank and the master's is empty.
  ServeReport serve_lists(const std::vector<std::vector<SampleIndex>>& lists);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trireme
