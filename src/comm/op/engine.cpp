#include "comm/op/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <sched.h>

#include "comm/checks.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// How many spins between liveness checks, each of which checks every peer.
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
    return false;  // the caller checks once more before sleeping
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

Engine::Engine(Idle& idle, EngineOptions options) : idle_(idle), options_(std::move(options)) {}

Engine::~Engine() {
  stopping_.store(true);
  idle_.wake();
  if (lane_.joinable()) {
    lane_.join();
  }
}

/// Ends the wait of an operation that cannot finish, or not in time.
void Engine::examine(Op& op, Seconds stuck) const {
  op.check(stuck);
  if (is_checked() && stuck > options_.patience) {
    op.expire(stuck);
    throw Error(ErrorKind::Peer, "operation timed out");
  }
}

void Engine::run(Op& op) {
  Backoff backoff(idle_, options_.waiting);
  for (;;) {
    const Progress progress = op.advance();
    if (progress == Progress::Done) {
      return;
    }
    if (progress == Progress::Moved) {
      backoff.reset();
    } else if (backoff.pause()) {
      examine(op, backoff.stuck());
    }
  }
}

void Engine::submit(std::shared_ptr<Job> job) {
  {
    MutexLock lock(mutex_);
    if (job->line != nullptr) {
      ++busy_[job->line];
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
  return busy_.contains(line);
}

bool Engine::accept_jobs() {
  if (!has_incoming_.exchange(false)) {
    return false;
  }
  std::vector<std::shared_ptr<Job>> jobs;
  {
    MutexLock lock(mutex_);
    jobs = std::exchange(incoming_, {});
  }
  const auto now = Clock::now();
  for (std::shared_ptr<Job>& job : jobs) {
    job->moved = now;
    if (job->line == nullptr) {
      messages_.push_back(std::move(job));
    } else {
      lines_[job->line].push_back(std::move(job));
    }
  }
  return true;
}

void Engine::finish(Job& job, std::exception_ptr error) {
  if (job.line != nullptr) {
    MutexLock lock(mutex_);
    if (const auto it = busy_.find(job.line); --it->second == 0) {
      busy_.erase(it);
    }
  }
  job.finish(std::move(error));
  unfinished_.fetch_sub(1, std::memory_order_release);
}

/// Advances a job as far as possible. True if it made progress; it may then be done.
bool Engine::advance(Job& job, bool check) {
  try {
    const Progress progress = job.op->advance();
    if (progress == Progress::Done) {
      finish(job, nullptr);
    } else if (progress == Progress::Moved) {
      job.moved = Clock::now();
    } else if (check) {
      examine(*job.op, {std::chrono::duration<double>(Clock::now() - job.moved).count()});
      return false;
    }
    return progress != Progress::Stuck;
  } catch (...) {
    finish(job, std::current_exception());
    return true;
  }
}

/// Advances the first job of each line. A job's time starts when it becomes the first.
bool Engine::advance_lines(bool check) {
  bool moved = false;
  for (auto it = lines_.begin(); it != lines_.end();) {
    Line& line = it->second;
    moved = advance(*line.front(), check) || moved;
    if (line.front()->done.load(std::memory_order_acquire)) {
      line.pop_front();
      if (!line.empty()) {
        line.front()->moved = Clock::now();
      }
    }
    it = line.empty() ? lines_.erase(it) : std::next(it);
  }
  return moved;
}

/// Messages: there may be thousands, and most only wait for the mailbox, so they are checked less often.
bool Engine::advance_messages(bool check) {
  constexpr std::chrono::milliseconds kBetweenChecks{10};
  if (messages_.empty()) {
    return false;
  }
  bool moved = options_.progress();
  check = check && Clock::now() - messages_checked_ >= kBetweenChecks;
  for (auto it = messages_.begin(); it != messages_.end();) {
    if (check || !(*it)->op->awaits_mailbox()) {
      moved = advance(**it, check) || moved;
    }
    it = (*it)->done.load(std::memory_order_acquire) ? messages_.erase(it) : std::next(it);
  }
  if (check) {
    messages_checked_ = Clock::now();
  }
  return moved;
}

void Engine::drive_lane() {
  Backoff backoff(idle_, options_.waiting);
  bool check = false;
  while (!stopping_.load()) {
    const bool accepted = accept_jobs();
    const bool lines_moved = advance_lines(check);
    if (advance_messages(check) || lines_moved || accepted) {
      backoff.reset();
      check = false;
    } else if (!has_incoming_.load()) {
      check = backoff.pause();
    }
  }
  (void)accept_jobs();
  const auto left = std::make_exception_ptr(
      Error(ErrorKind::Usage, "the world ended before this operation was done"));
  for (const auto& [key, line] : lines_) {
    for (const std::shared_ptr<Job>& job : line) {
      job->finish(left);
    }
  }
  for (const std::shared_ptr<Job>& job : messages_) {
    job->finish(left);
  }
}

}  // namespace trireme::comm
