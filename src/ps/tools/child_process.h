// A child process that ends with its parent. One thread.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "trireme/units.h"

namespace trireme::ps {

class ChildProcess {
 public:
  /// `variable` is added to its environment. Throws Error(System).
  ChildProcess(const std::vector<std::string>& command, const std::string& variable);
  /// Kills it if it is running, and waits for it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void kill();
  /// Asks it to end by SIGTERM and waits for that; kills it after `patience`. Returns whether it ended by itself.
  bool terminate(Seconds patience);
  void pause();
  void resume();

 private:
  void signal(int number) const;
  pid_t pid_ = -1;
};

}  // namespace trireme::ps
