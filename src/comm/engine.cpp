#include "comm/engine.h"

#include <algorithm>
#include <utility>

#include <sched.h>

#include "comm/checks.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// Checks that the peers are alive come every so many spins; each costs a look at every peer.
constexpr int kSpinsPerCheck = 512;
constexpr std::chrono::milliseconds kLongestSleep{50};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Backoff::~Backoff() {
  reset();
}

void Backoff::reset() {
  if (announced_) {
    idle_.withdraw();
    announced_ = false;
  }
  count_ = 0;
  since_ = {};
}

Seconds Backoff::stuck() {
  if (!is_checked()) {
    return {};
  }
  const auto now = std::chrono::steady_clock::now();
  if (since_ == std::chrono::steady_clock::time_point{}) {
    since_ = now;
  }
  return {std::chrono::duration<double>(now - since_).count()};
}

bool Backoff::pause() {
  ++count_;
  if (count_ <= waiting_.spins) {
    relax();
    return is_checked() && count_ % kSpinsPerCheck == 0;
  }
  if (count_ <= waiting_.spins + waiting_.yields) {
    sched_yield();
    return true;
  }
  if (!announced_) {
    token_ = idle_.announce();
    announced_ = true;
    return false;  // the caller looks once more before the sleep
  }
  idle_.sleep(token_, kLongestSleep);
  idle_.withdraw();
  announced_ = false;
  return true;
}

void Job::finish(std::exception_ptr how) {
  {
    const std::lock_guard lock(mutex);
    error = std::move(how);
    op.reset();
    done.store(true, std::memory_order_release);
  }
  changed.notify_all();
}

bool Job::wait(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, at_most, [&] { return done.load(std::memory_order_acquire); });
}

Engine::Engine(Idle& idle, const Waiting& waiting) : idle_(idle), waiting_(waiting) {}

Engine::~Engine() {
  stopping_.store(true);
  idle_.wake();
  if (lane_.joinable()) {
    lane_.join();
  }
}

void Engine::run(Op& op) {
  Backoff backoff(idle_, waiting_);
  for (;;) {
    const Progress progress = op.advance();
    if (progress == Progress::Done) {
      return;
    }
    if (progress == Progress::Moved) {
      backoff.reset();
    } else if (backoff.pause()) {
      op.check(backoff.stuck());
    }
  }
}

void Engine::submit(std::shared_ptr<Job> job) {
  {
    MutexLock lock(mutex_);
    if (job->line != nullptr) {
      lines_.push_back(job->line);
    }
    incoming_.push_back(std::move(job));
  }
  unfinished_.fetch_add(1);
  has_incoming_.store(true);
  if (!lane_.joinable()) {
    lane_ = std::thread([this] { drive_lane(); });
  }
  idle_.wake();
}

bool Engine::is_busy(const void* line) const {
  if (unfinished_.load(std::memory_order_acquire) == 0) {
    return false;
  }
  MutexLock lock(mutex_);
  return std::ranges::find(lines_, line) != lines_.end();
}

bool Engine::accept_jobs() {
  if (!has_incoming_.exchange(false)) {
    return false;
  }
  MutexLock lock(mutex_);
  for (const std::shared_ptr<Job>& job : incoming_) {
    job->moved = std::chrono::steady_clock::now();
  }
  jobs_.insert(jobs_.end(), std::make_move_iterator(incoming_.begin()),
               std::make_move_iterator(incoming_.end()));
  incoming_.clear();
  return true;
}

/// Asks every job that may go on to do so. True if one moved.
bool Engine::advance_jobs(bool check) {
  bool moved = false;
  std::vector<const void*> taken;  // lines whose first job is still under way
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Job& job = **it;
    if (job.line != nullptr && std::ranges::find(taken, job.line) != taken.end()) {
      job.moved = std::chrono::steady_clock::now();  // its own time begins when its turn comes
      ++it;
      continue;
    }
    std::exception_ptr error;
    bool done = false;
    try {
      const Progress progress = job.op->advance();
      done = progress == Progress::Done;
      if (progress != Progress::Stuck) {
        moved = true;
        job.moved = std::chrono::steady_clock::now();
      } else if (check) {
        job.op->check(
            {std::chrono::duration<double>(std::chrono::steady_clock::now() - job.moved).count()});
      }
    } catch (...) {
      error = std::current_exception();
      done = true;
      moved = true;
    }
    if (!done) {
      taken.push_back(job.line);
      ++it;
      continue;
    }
    {
      MutexLock lock(mutex_);
      if (const auto line = std::ranges::find(lines_, job.line); line != lines_.end()) {
        lines_.erase(line);
      }
    }
    job.finish(error);
    unfinished_.fetch_sub(1, std::memory_order_release);
    it = jobs_.erase(it);
  }
  return moved;
}

void Engine::drive_lane() {
  Backoff backoff(idle_, waiting_);
  bool check = false;
  while (!stopping_.load()) {
    const bool accepted = accept_jobs();
    if (advance_jobs(check) || accepted) {
      backoff.reset();
      check = false;
    } else if (!has_incoming_.load()) {
      check = backoff.pause();
    }
  }
  (void)accept_jobs();
  const auto left = std::make_exception_ptr(
      Error(ErrorKind::Usage, "the world ended before this operation was done"));
  for (const std::shared_ptr<Job>& job : jobs_) {
    job->finish(left);
  }
}

}  // namespace trireme::comm
