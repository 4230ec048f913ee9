// A mutex that clang's thread-safety analysis understands (-Wthread-safety, run by ./test --lint).
//
//   Mutex mutex_;
//   int count_ TRIREME_GUARDED_BY(mutex_) = 0;
//   …
//   MutexLock lock(mutex_);
//   ++count_;
//   changed_.notify_all();  // a CondVar
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TRIREME_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TRIREME_THREAD_ANNOTATION(x)
#endif

#define TRIREME_CAPABILITY(name) TRIREME_THREAD_ANNOTATION(capability(name))
#define TRIREME_SCOPED_CAPABILITY TRIREME_THREAD_ANNOTATION(scoped_lockable)
#define TRIREME_GUARDED_BY(mutex) TRIREME_THREAD_ANNOTATION(guarded_by(mutex))
#define TRIREME_REQUIRES(...) TRIREME_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TRIREME_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRIREME_RELEASE(...) TRIREME_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRIREME_ASSERTS(...) TRIREME_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))

namespace trireme {

class TRIREME_CAPABILITY("mutex") Mutex {
 public:
  void lock() TRIREME_ACQUIRE() { mutex_.lock(); }
  void unlock() TRIREME_RELEASE() { mutex_.unlock(); }
  /// Does nothing. For a callback whose caller is known to hold it but cannot express that.
  void assume_held() const TRIREME_ASSERTS(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for its lifetime.
class TRIREME_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TRIREME_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TRIREME_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A condition variable for use with a Mutex.
class CondVar {
 public:
  void notify_all() { condition_.notify_all(); }

  /// Releases the mutex, waits for a notification or the deadline, and reacquires it. May wake
  /// spuriously: wait in a loop that checks the condition.
  void wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      TRIREME_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(lock, deadline);
    lock.release();  // the caller continues to hold it
  }

 private:
  std::condition_variable condition_;
};

}  // namespace trireme
