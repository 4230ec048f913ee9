// The program while it runs, to look at, to interrupt and to kill.
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

/// A rank needs a moment to see that another is gone; a busy machine needs more.
inline constexpr std::chrono::seconds kAFewSeconds{10};
/// For what computes, too.
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

/// The program under way, in a process group of its own. What is left of it ends with the test.
class Started {
 public:
  /// What it says goes into the folder. `prepare` is called in its process first.
  Started(
      const std::string& arguments, const std::string& folder,
      const std::function<void()>& prepare = [] {})
      : out_(folder + "/out"), err_(folder + "/err") {
    std::istringstream in(arguments);
    std::vector<std::string> words{TRIREME_PROGRAM};
    for (std::string word; in >> word;) {
      words.push_back(word);
    }
    std::vector<char*> pointers;
    for (std::string& word : words) {
      pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      redirect(out_, STDOUT_FILENO);
      redirect(err_, STDERR_FILENO);
      prepare_or_end(prepare);
      execv(TRIREME_PROGRAM, pointers.data());
      _exit(127);
    }
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

  /// Those that it has forked, in order: rank 0 is first.
  [[nodiscard]] std::vector<pid_t> ranks() const {
    std::istringstream in(read_text(fmt::format("/proc/{0}/task/{0}/children", process_)));
    std::vector<pid_t> ranks;
    for (pid_t rank = 0; in >> rank;) {
      ranks.push_back(rank);
    }
    return ranks;
  }

  /// Its end, which must come within the limit; -1 if it did not, or came by a signal.
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
