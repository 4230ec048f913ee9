#include "supervise.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board.h"
#include "execute.h"

namespace trireme::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A file in memory that captures the standard error of a process.
class Captured {
 public:
  Captured() : fd_(memfd_create("stderr", MFD_CLOEXEC)) {
    if (fd_ < 0) {
      throw Error(ErrorKind::System, "cannot make a file in memory");
    }
  }
  ~Captured() { close(fd_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  void take_standard_error() const { dup2(fd_, STDERR_FILENO); }
  [[nodiscard]] std::string text() const {
    std::array<char, 4096> text{};
    const ssize_t length = pread(fd_, text.data(), text.size(), 0);
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
  }

 private:
  int fd_;
};

[[noreturn]] void run_child(pid_t parent, const Sequence& sequence, Board& board,
                            const Captured& captured) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  captured.take_standard_error();
  execute(sequence, board);
  std::fflush(nullptr);
  _exit(0);
}

/// A started process; killed on destruction if it is still running.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid), end_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      (void)reap();
    }
    close(end_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] bool ends_within(int milliseconds) const {
    pollfd end{end_, POLLIN, 0};
    return poll(&end, 1, milliseconds) == 1;
  }
  /// Its wait status.
  int reap() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
  int end_;
};

/// Waits until the child ends, hangs or has reported; true if it ended.
bool await_end(const Child& child, const Board& board, Seconds timeout) {
  constexpr int kLookMilliseconds = 20;
  constexpr int kGraceMilliseconds = 300;
  const Clock::time_point begin = Clock::now();
  while (!child.ends_within(kLookMilliseconds)) {
    if (board.has_report()) {
      return child.ends_within(kGraceMilliseconds);  // others may have something to report
    }
    if (seconds_since(begin) > timeout.count) {
      return false;
    }
  }
  return true;
}

Outcome judge(Child& child, const Board& board, const Captured& captured, Seconds timeout) {
  const bool ended = await_end(child, board, timeout);
  const int status = ended ? child.reap() : 0;
  const std::string spoken = captured.text();
  if (ended && WIFSIGNALED(status)) {
    return {Outcome::Kind::Crashed,
            fmt::format("ended by signal {}\n{}", WTERMSIG(status), spoken)};
  }
  if (spoken.find("ended by signal") != std::string::npos) {
    return {Outcome::Kind::Crashed, spoken};
  }
  if (board.has_report()) {
    return {Outcome::Kind::Wrong, board.report_text() + "\n" + spoken};
  }
  if (!ended) {
    return {Outcome::Kind::Hung, fmt::format("no end after {} s\n{}", timeout.count, spoken)};
  }
  return status == 0 ? Outcome{} : Outcome{Outcome::Kind::Crashed, "exit\n" + spoken};
}

}  // namespace

std::string_view to_text(Outcome::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames{"passed", "wrong", "crashed", "hung"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Outcome run_apart(const Sequence& sequence, Seconds timeout) {
  Board board(sequence);
  const Captured captured;
  std::fflush(nullptr);
  const Clock::time_point begin = Clock::now();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    throw Error(ErrorKind::System, "cannot fork");
  }
  if (pid == 0) {
    run_child(parent, sequence, board, captured);
  }
  Child child(pid);
  Outcome outcome = judge(child, board, captured, timeout);
  outcome.took = Seconds{seconds_since(begin)};
  return outcome;
}

}  // namespace trireme::fuzz
