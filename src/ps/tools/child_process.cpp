#include "ps/tools/child_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/net/deadline.h"
#include "comm/net/fd.h"

namespace trireme::ps {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

/// In the child: only calls that are safe after a fork in a program with threads.
[[noreturn]] void execute(char* const* arguments, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // Ctrl-C is for the parent, which ends it
  const int nowhere = ::open("/dev/null", O_RDWR);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(nowhere, STDOUT_FILENO);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::string& variable) {
  std::vector<std::string> words = command;
  std::vector<std::string> variables{variable};
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> environment = pointers(variables);
  pid_ = ::fork();
  if (pid_ == 0) {
    execute(arguments.data(), environment.data());
  }
  if (pid_ < 0) {
    comm::throw_system("cannot start a process of the parameter server", errno);
  }
}

ChildProcess::~ChildProcess() {
  kill();
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) {
    ::kill(pid_, number);
  }
}

void ChildProcess::kill() {
  signal(SIGKILL);
  if (pid_ > 0) {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

bool ChildProcess::terminate(Seconds patience) {
  constexpr std::chrono::milliseconds kLook{1};
  signal(SIGTERM);
  const comm::Deadline deadline = comm::deadline_in(patience);
  while (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (comm::passed(deadline)) {
      kill();
      return false;
    }
    std::this_thread::sleep_for(kLook);
  }
  pid_ = -1;
  return true;
}

void ChildProcess::pause() {
  signal(SIGSTOP);
}

void ChildProcess::resume() {
  signal(SIGCONT);
}

}  // namespace trireme::ps
