#include "comm/timed.h"

#include <csignal>
#include <stdexcept>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme::test {

// A process and not a thread: a process with threads must not fork ranks under the thread sanitizer.
SchedulingGap::SchedulingGap() : measuring_(fork()) {
  if (measuring_ < 0) {
    throw std::runtime_error("cannot fork");
  }
  if (measuring_ > 0) {
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (double last = now(); !shared_->done;) {
    const double next = now();
    shared_->longest = std::max<double>(shared_->longest, next - last);
    last = next;
  }
  _exit(0);
}

SchedulingGap::~SchedulingGap() {
  shared_->done = true;
  waitpid(measuring_, nullptr, 0);
}

double SchedulingGap::longest() const {
  return shared_->longest;
}

}  // namespace trireme::test
