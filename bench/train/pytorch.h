// The PyTorch process of the benchmark. One thread at a time.
#pragma once

#include <cstdio>
#include <sstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "trireme/error.h"

namespace trireme {

struct MeasuredStep {
  double loss = 0;
  double seconds = 0;
  double memory = 0;
};

/// The PyTorch process: answers each line with the result of a step.
class PyTorch {
 public:
  PyTorch(const std::string& script, const std::string& settings) {
    int to[2];
    int from[2];
    if (pipe(to) != 0 || pipe(from) != 0) {
      throw Error(ErrorKind::System, "pipe failed");
    }
    child_ = fork();
    if (child_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int fd : {to[0], to[1], from[0], from[1]}) {
        close(fd);
      }
      // The interpreter that Debian's package is for, whichever comes first on the path.
      execl("/usr/bin/python3", "python3", script.c_str(), settings.c_str(), nullptr);
      std::perror("/usr/bin/python3");
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_ = fdopen(to[1], "w");
    from_ = fdopen(from[0], "r");
    version_ = line();
  }
  PyTorch(const PyTorch&) = delete;
  PyTorch& operator=(const PyTorch&) = delete;
  ~PyTorch() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(child_, nullptr, 0);
  }

  [[nodiscard]] const std::string& version() const { return version_; }

  MeasuredStep step() {
    std::fputs("step\n", to_);
    std::fflush(to_);
    std::istringstream words(line());
    MeasuredStep step;
    words >> step.loss >> step.seconds >> step.memory;
    return step;
  }

 private:
  std::string line() {
    char text[256];
    if (std::fgets(text, sizeof text, from_) == nullptr) {
      throw Error(ErrorKind::System, "the PyTorch process ended; see its error above");
    }
    std::string result = text;
    while (!result.empty() && result.back() == '\n') {
      result.pop_back();
    }
    return result;
  }

  pid_t child_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  std::string version_;
};

}  // namespace trireme
