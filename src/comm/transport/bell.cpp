#include "comm/transport/bell.h"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trireme::comm {

// Shared futexes: the word may be in memory that several processes map at different addresses.

void Bell::ring_loudly() {
  rings.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t Bell::announce() {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  return rings.load(std::memory_order_seq_cst);
}

void Bell::sleep(std::uint32_t token, std::chrono::nanoseconds at_most) {
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  const timespec time{at_most.count() / kNanosecondsPerSecond,
                      at_most.count() % kNanosecondsPerSecond};
  syscall(SYS_futex, &rings, FUTEX_WAIT, token, &time, nullptr, 0);
}

}  // namespace trireme::comm
