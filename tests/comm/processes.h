// Processes that a test starts, each of which returns a line of text.
#pragma once

#include <array>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/net/fd.h"

namespace trireme::test {

/// A forked process. Killed with the object, and with the test's process.
class Process {
 public:
  /// Runs the body, whose text (or exception) is the result.
  explicit Process(const std::function<std::string()>& body) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::runtime_error("cannot create a socket pair");
    }
    result_ = comm::Fd(ends[0]);
    const comm::Fd out(ends[1]);
    std::fflush(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string text = getppid() == parent ? text_of(body) : "";
      [[maybe_unused]] const ssize_t sent = send(out.get(), text.data(), text.size(), MSG_NOSIGNAL);
      std::fflush(nullptr);
      _exit(0);
    }
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), result_(std::move(other.result_)) {}
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable when there is a result.
  [[nodiscard]] int descriptor() const { return result_.get(); }

  /// Waits for the end. "timed out" if that takes more than a minute and a half.
  [[nodiscard]] std::string result() {
    std::string text;
    std::array<char, 4096> bytes{};
    for (;;) {
      pollfd entry{result_.get(), POLLIN, 0};
      if (poll(&entry, 1, 90'000) <= 0) {
        return "timed out";
      }
      const ssize_t got = read(result_.get(), bytes.data(), bytes.size());
      if (got <= 0) {
        return text;
      }
      text.append(bytes.data(), got);
    }
  }

 private:
  static std::string text_of(const std::function<std::string()>& body) {
    try {
      return body();
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  pid_t pid_ = -1;
  comm::Fd result_;
};

/// Waits until one has a result; returns its index, or -1 after a minute and a half.
inline int first_done(const std::vector<Process>& processes) {
  std::vector<pollfd> entries;
  for (const Process& process : processes) {
    entries.push_back({process.descriptor(), POLLIN, 0});
  }
  poll(entries.data(), entries.size(), 90'000);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents != 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace trireme::test
