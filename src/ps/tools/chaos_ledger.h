// What a worker of a chaos run has done, in memory that survives the worker: a file that the worker and its parent map. A
// worker writes a push down before it sends it and after it is acknowledged, so whatever kills it in between, the parent
// knows how often each key was pushed at least and at most. Lock-free; any thread of both processes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "trireme/ps_table.h"

namespace trireme::ps {

inline constexpr Key kChaosKeys = 64;                ///< of each worker
inline constexpr std::size_t kMaxChaosLives = 4096;  ///< of workers
inline constexpr ClockCount kChaosStaleness = 3;

using SharedCount = std::atomic<std::uint64_t>;
static_assert(SharedCount::is_always_lock_free);

/// A push or pull that took long, on the host's monotonic clock.
struct SlowPush {
  std::int64_t begin = 0;  ///< microseconds
  std::int64_t end = 0;
};

/// One life of a worker.
struct LifeLedger {
  std::array<SharedCount, kChaosKeys> begun;
  std::array<SharedCount, kChaosKeys> acknowledged;
  SharedCount pushes;         ///< acknowledged
  SharedCount reads;          ///< that were checked
  SharedCount missed_writes;  ///< reads that differ from what the worker has pushed
  /// By life: it read fewer of its iterations than allowed.
  std::array<std::atomic<bool>, kMaxChaosLives> saw_stale;
  std::atomic<bool> has_left_clock;  ///< was paused or killed, or others continued without it
  SharedCount join_micros;           ///< how long it took to join; 0: not yet
  std::atomic<bool> stop;            ///< set by the parent
  std::atomic<bool> is_finished;
  std::array<char, 256> problem;
  std::array<SharedCount, 96> latencies;  ///< by quarter powers of 2 of microseconds
  SharedCount slow_count;
  std::array<SlowPush, 4096> slow;  ///< the first ones
};

/// Which life each worker is in.
struct Roster {
  std::array<SharedCount, 64> life;
};

/// Creates the file if it does not exist. Throws Error(System).
[[nodiscard]] void* map_shared(const std::string& path, std::size_t size);
void unmap_shared(void* data, std::size_t size) noexcept;

/// A zero-initialized T in a file, shared by all processes that map it.
template <class T>
class SharedRecord {
 public:
  explicit SharedRecord(const std::string& path)
      : data_(static_cast<T*>(map_shared(path, sizeof(T)))) {}
  ~SharedRecord() { unmap_shared(data_, sizeof(T)); }
  SharedRecord(const SharedRecord&) = delete;
  SharedRecord& operator=(const SharedRecord&) = delete;
  T* operator->() const { return data_; }

 private:
  T* data_;
};

[[nodiscard]] std::string ledger_file(const std::string& folder, std::size_t life);
[[nodiscard]] std::string roster_file(const std::string& folder);

/// The bucket of a latency, and the latency in its middle.
[[nodiscard]] std::size_t latency_bucket(std::int64_t micros);
[[nodiscard]] double bucket_micros(std::size_t bucket);

}  // namespace trireme::ps
