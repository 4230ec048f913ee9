#include "base/cores.h"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace trireme {

std::vector<int> allowed_core_ids() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> ids;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return ids;
  }
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) {
      ids.push_back(core);
    }
  }
  return ids;
}

int usable_cores() {
  const std::size_t allowed = allowed_core_ids().size();
  return static_cast<int>(allowed > 1 ? allowed
                                      : std::max(1U, std::thread::hardware_concurrency()));
}

void pin_thread_to(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  (void)sched_setaffinity(0, sizeof(one), &one);
}

}  // namespace trireme
