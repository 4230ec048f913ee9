// The streams and events of the isolated device: a stream is a thread with a queue. One thread at a time may call each.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support/isolated_device.h"
#include "trireme/device.h"

namespace trireme::isolated {

/// From an address that the device has handed out to the memory behind it.
using Translate = std::function<std::byte*(const std::byte*)>;

struct StreamOptions {
  std::uint64_t seed = 1;
  Seconds longest_delay{};
  Translate translate{};
  std::shared_ptr<IsolatedCounts> counts{};
};

/// Shared with the streams that still have to reach it. Thread-safe.
class EventState {
 public:
  using Clock = std::chrono::steady_clock;

  /// The number of a new point, to be passed to reach().
  std::int64_t next();
  /// The point that the event marks now.
  [[nodiscard]] std::int64_t current() const;
  void reach(std::int64_t point, const std::exception_ptr& error);
  [[nodiscard]] bool reached(std::int64_t point) const;
  /// Returns the error of the work before it. Throws Error(System) after a minute.
  std::exception_ptr wait(std::int64_t point);
  [[nodiscard]] Clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t recorded_ = 0;
  std::int64_t reached_ = 0;
  std::exception_ptr error_;
  Clock::time_point time_{};
};

class StreamEvent final : public Event {
 public:
  explicit StreamEvent(bool timed) : timed_(timed) {}
  [[nodiscard]] bool done() override;
  void wait() override;
  [[nodiscard]] Seconds since(Event& earlier) override;
  [[nodiscard]] const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
  bool timed_;
};

class ThreadStream final : public Stream {
 public:
  using Task = std::function<void()>;

  explicit ThreadStream(StreamOptions options);
  ~ThreadStream() override;
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;

  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(std::span<std::byte> to, const std::byte* from) override;
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;

  /// Runs a kernel after a delay; while the stream is captured, appends it to the capture.
  void launch(Task task);
  /// The kernels that `enqueue` launches.
  [[nodiscard]] std::vector<Task> capture(const std::function<void()>& enqueue);

 private:
  void push(Task task);
  void push_copy(std::span<std::byte> to, const std::byte* from);
  void delay();
  void run_tasks();
  void run_unless_failed(const Task& task);

  StreamOptions options_;
  std::minstd_rand random_;                ///< used by the thread
  std::exception_ptr error_;               ///< likewise: the first of its work
  std::vector<Task>* captured_ = nullptr;  ///< used by the caller
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  ///< guarded by mutex_
  bool ends_ = false;       ///< likewise
  std::thread thread_;
};

}  // namespace trireme::isolated
