#include "support/isolated_stream.h"

#include <algorithm>
#include <utility>

#include <omp.h>

#include "base/check.h"
#include "trireme/error.h"

namespace trireme::isolated {
namespace {

constexpr std::chrono::seconds kDeadline{60};
constexpr std::byte kGarbage{0xff};  // NaN in every float type

}  // namespace

std::int64_t EventState::next() {
  const std::lock_guard lock(mutex_);
  return ++recorded_;
}

std::int64_t EventState::current() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

void EventState::reach(std::int64_t point, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  reached_ = point;
  error_ = error;
  time_ = Clock::now();
  changed_.notify_all();
}

bool EventState::reached(std::int64_t point) const {
  const std::lock_guard lock(mutex_);
  return reached_ >= point;
}

std::exception_ptr EventState::wait(std::int64_t point) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kDeadline, [&] { return reached_ >= point; })) {
    throw Error(ErrorKind::System, "isolated device: an event was not reached within a minute");
  }
  return error_;
}

EventState::Clock::time_point EventState::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

bool StreamEvent::done() {
  if (!state_->reached(state_->current())) {
    return false;
  }
  wait();
  return true;
}

void StreamEvent::wait() {
  if (const std::exception_ptr error = state_->wait(state_->current())) {
    std::rethrow_exception(error);
  }
}

Seconds StreamEvent::since(Event& earlier) {
  auto& from = dynamic_cast<StreamEvent&>(earlier);
  TRIREME_CHECK(timed_ && from.timed_, "an event without timing has no time");
  TRIREME_CHECK(done() && from.done(), "an event that is not done has no time");
  return {std::chrono::duration<double>(state_->time() - from.state_->time()).count()};
}

ThreadStream::ThreadStream(StreamOptions options)
    : options_(std::move(options)),
      random_(static_cast<std::minstd_rand::result_type>(options_.seed)),
      thread_([this] { run_tasks(); }) {}

ThreadStream::~ThreadStream() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ThreadStream::push(Task task) {
  TRIREME_CHECK(captured_ == nullptr, "only kernels can be recorded");
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void ThreadStream::push_copy(std::span<std::byte> to, const std::byte* from) {
  push([this, to, from] {
    run_unless_failed([&] {
      std::ranges::fill(to, kGarbage);
      delay();
      std::copy_n(from, to.size(), to.data());
    });
  });
}

void ThreadStream::copy_in(std::byte* to, std::span<const std::byte> from) {
  push_copy({options_.translate(to), from.size()}, from.data());
}

void ThreadStream::copy_out(std::span<std::byte> to, const std::byte* from) {
  push_copy(to, options_.translate(from));
}

void ThreadStream::copy(std::byte* to, std::span<const std::byte> from) {
  push_copy({options_.translate(to), from.size()}, options_.translate(from.data()));
}

void ThreadStream::record(Event& event) {
  const auto state = dynamic_cast<StreamEvent&>(event).state();
  push([this, state, point = state->next()] { state->reach(point, error_); });
}

void ThreadStream::wait(Event& event) {
  const auto state = dynamic_cast<StreamEvent&>(event).state();
  push([this, state, point = state->current()] {
    run_unless_failed([&] {
      if (const std::exception_ptr error = state->wait(point)) {
        std::rethrow_exception(error);
      }
    });
  });
}

/// An error is reported once; after that the stream works again.
void ThreadStream::synchronize() {
  ++options_.counts->synchronizations;
  StreamEvent end(false);
  push([this, state = end.state(), point = end.state()->next()] {
    state->reach(point, std::exchange(error_, nullptr));
  });
  end.wait();
}

void ThreadStream::launch(Task task) {
  if (captured_ != nullptr) {
    captured_->push_back(std::move(task));
    return;
  }
  ++options_.counts->launches;
  push([this, task = std::move(task)] {
    run_unless_failed([&] {
      delay();
      task();
    });
  });
}

std::vector<ThreadStream::Task> ThreadStream::capture(const std::function<void()>& enqueue) {
  std::vector<Task> tasks;
  captured_ = &tasks;
  try {
    enqueue();
  } catch (...) {
    captured_ = nullptr;
    throw;
  }
  captured_ = nullptr;
  return tasks;
}

/// One piece of work in eight waits.
void ThreadStream::delay() {
  constexpr int kOneIn = 8;
  if (random_() % kOneIn == 0) {
    std::uniform_real_distribution<double> seconds(0, options_.longest_delay.count);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random_)));
  }
}

void ThreadStream::run_tasks() {
  omp_set_num_threads(1);
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void ThreadStream::run_unless_failed(const Task& task) {
  if (error_) {
    return;
  }
  try {
    task();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace trireme::isolated
