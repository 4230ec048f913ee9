#include "base/cores.h"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace trireme {

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails on machines with more cores than the set can hold; then all count.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 1) {
    return CPU_COUNT(&allowed);
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace trireme
