#include "comm/net/admission.h"

#include <algorithm>

#include <sys/resource.h>

namespace trireme::comm {

std::size_t most_unauthenticated() {
  constexpr std::size_t kShare = 8;
  constexpr std::size_t kMin = 8;
  constexpr std::size_t kMax = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kMin;
  }
  return std::clamp<std::size_t>(limit.rlim_cur / kShare, kMin, kMax);
}

}  // namespace trireme::comm
