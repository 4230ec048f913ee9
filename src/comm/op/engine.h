// Engine: drives operations. The caller's own thread drives a blocking call; the lane, a thread created by the first
// start(), drives started operations.
//
// Waiting has three stages: spin (a peer on another core answers in a fraction of a microsecond), yield (the peer may
// need this very core), sleep on the bell (an idle rank costs nothing). If ranks outnumber cores, the first stage is
// short. Every wait ends: an operation without progress for longer than the engine's patience expires.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "comm/op/op.h"
#include "comm/transport/bell.h"

namespace trireme::comm {

/// The object that a thread sleeps on while it waits for peers.
class Idle {
 public:
  Idle() = default;
  virtual ~Idle() = default;
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;
  [[nodiscard]] virtual std::uint32_t announce() = 0;
  virtual void sleep(std::uint32_t token, std::chrono::nanoseconds at_most) = 0;
  virtual void withdraw() = 0;
  /// Wakes all threads of this rank that sleep on it.
  virtual void wake() = 0;
};

/// The length of each stage of waiting.
struct Waiting {
  int spins = 2000;
  int yields = 100;
};

/// One wait: call pause() whenever there was nothing to do, reset() whenever there was.
class Backoff {
 public:
  Backoff(Idle& idle, const Waiting& waiting) : idle_(idle), waiting_(waiting) {}
  ~Backoff();
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;

  /// Waits a little, longer each time. True when it is time to check that the peers are alive.
  [[nodiscard]] bool pause();
  void reset();
  /// The time since the first call of this function after the last reset: most waits end before a check and do not need
  /// a clock.
  [[nodiscard]] Seconds stuck();

 private:
  Idle& idle_;
  Waiting waiting_;
  int count_ = 0;
  bool announced_ = false;
  std::uint32_t token_ = 0;
  std::chrono::steady_clock::time_point since_{};  ///< the first call; none yet
};

/// A started operation and its outcome.
struct Job {
  std::shared_ptr<void> keeps;  ///< keeps alive what the operation refers to
  std::unique_ptr<Op> op;
  const void* line = nullptr;  ///< jobs of one line run in order; none: immediately
  std::chrono::steady_clock::time_point moved{};  ///< the time of its last progress
  std::atomic<bool> done{false};
  std::exception_ptr error;  ///< set before done
  std::mutex mutex;
  std::condition_variable changed;

  void finish(std::exception_ptr how);
  /// False if the time ran out first.
  bool wait(std::chrono::nanoseconds at_most);
};

struct EngineOptions {
  Waiting waiting{};
  Seconds patience{};              ///< how long an operation may be stuck before it expires
  std::function<bool()> progress;  ///< moves messages; true if any moved
};

class Engine {
 public:
  Engine(Idle& idle, EngineOptions options);
  /// Ends the lane; unfinished jobs end with an error. Never throws.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Drives the operation to completion on this thread and propagates its exception. Only this function and the lane
  /// wait for operations.
  void run(Op& op);
  /// Hands it to the lane.
  void submit(std::shared_ptr<Job> job);
  /// Whether a job of this line is unfinished.
  [[nodiscard]] bool is_busy(const void* line) const;

 private:
  using Clock = std::chrono::steady_clock;
  using Line = std::deque<std::shared_ptr<Job>>;

  void drive_lane();
  [[nodiscard]] bool accept_jobs();
  [[nodiscard]] bool advance_lines(bool check);
  [[nodiscard]] bool advance_messages(bool check);
  [[nodiscard]] bool advance(Job& job, bool check);
  void finish(Job& job, std::exception_ptr error);
  void examine(Op& op, Seconds stuck) const;

  Idle& idle_;
  EngineOptions options_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Job>> incoming_ TRIREME_GUARDED_BY(mutex_);
  std::atomic<bool> has_incoming_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> unfinished_{0};
  /// The number of unfinished jobs, by line.
  std::map<const void*, std::int64_t> busy_ TRIREME_GUARDED_BY(mutex_);
  // Used only by the lane. Only the first job of a line runs; all messages do.
  std::map<const void*, Line> lines_;
  std::list<std::shared_ptr<Job>> messages_;
  Clock::time_point messages_checked_{};
  std::thread lane_;
};

}  // namespace trireme::comm
