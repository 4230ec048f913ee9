// A running instance of the program, to observe, interrupt and kill.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"

namespace trireme {

/// Ranks need a moment to notice that another one failed, and more on a busy machine.
inline constexpr std::chrono::seconds kAFewSeconds{10};
/// For steps that involve computation.
inline constexpr std::chrono::seconds kAMinute{60};

inline bool becomes_true(const std::function<bool()>& holds, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

inline bool is_alive(pid_t process) {
  return kill(process, 0) == 0;
}

/// Whether the process has a handler for the signal.
inline bool catches(pid_t process, int signal) {
  const std::string status = read_text(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kCaught = "SigCgt:";
  const std::size_t at = status.find(kCaught);
  return at != std::string::npos &&
         ((std::stoull(status.substr(at + kCaught.size()), nullptr, 16) >> (signal - 1)) & 1U) != 0;
}

/// What the program prints on the first stop signal.
inline constexpr const char* kAcknowledgment =
    "\ntrireme: stopping after this step; saving a checkpoint (again: stops immediately)\n";

/// The running program, in its own process group. The destructor kills it if it is still running.
class Started {
 public:
  /// Output goes to files in the folder. `prepare` runs first in the new process.
  Started(
      const std::string& arguments, const std::string& folder,
      const std::function<void()>& prepare = [] {})
      : out_(folder + "/out"), err_(folder + "/err") {
    std::istringstream in(arguments);
    std::vector<std::string> words{program_path()};
    for (std::string word; in >> word;) {
      words.push_back(word);
    }
    std::vector<char*> pointers;
    for (std::string& word : words) {
      pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    // Blocked, a signal that arrives before the new process has stopped ignoring it waits.
    sigset_t stops{};
    sigset_t before{};
    sigemptyset(&stops);
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
      sigaddset(&stops, signal);
    }
    pthread_sigmask(SIG_BLOCK, &stops, &before);
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      redirect(out_, STDOUT_FILENO);
      redirect(err_, STDERR_FILENO);
      for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        std::signal(signal, SIG_DFL);  // a shell's background jobs ignore SIGINT
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      prepare_or_end(prepare);
      execv(pointers.front(), pointers.data());
      _exit(127);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    setpgid(process_, process_);
  }
  ~Started() {
    if (process_ > 0) {
      kill(-process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }

  /// The forked processes in order, rank 0 first.
  [[nodiscard]] std::vector<pid_t> ranks() const {
    std::istringstream in(read_text(fmt::format("/proc/{0}/task/{0}/children", process_)));
    std::vector<pid_t> ranks;
    for (pid_t rank = 0; in >> rank;) {
      ranks.push_back(rank);
    }
    return ranks;
  }

  /// Waits until it exits, at most `limit`. The exit code is -1 if it did not exit in time or was killed by a signal.
  Ran wait(std::chrono::seconds limit) {
    int status = 0;
    const bool ended =
        becomes_true([&] { return waitpid(process_, &status, WNOHANG) == process_; }, limit);
    if (ended) {
      process_ = 0;
    }
    return {ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out_),
            read_text(err_)};
  }

 private:
  static void prepare_or_end(const std::function<void()>& prepare) {
    try {
      prepare();
    } catch (...) {
      _exit(127);
    }
  }
  static void redirect(const std::string& path, int to) {
    constexpr mode_t kMode = 0600;
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
    if (file < 0 || dup2(file, to) < 0) {
      _exit(127);
    }
  }

  std::string out_;
  std::string err_;
  pid_t process_ = 0;
};

}  // namespace trireme
