// Which of the loops for x86 this machine can run.
#include <vector>

#include <cpuid.h>

#include "comm/kernels/loops.h"

namespace trireme::comm {
namespace {

/// clang's __builtin_cpu_supports does not support it.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

std::vector<const Loops*> find_loops() {
  std::vector<const Loops*> found;
  // The compiler's runtime also checks whether the operating system saves the wide registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found.push_back(&kAvx512Loops);
  }
  if (__builtin_cpu_supports("avx2") && has_f16c()) {
    found.push_back(&kAvx2Loops);
  }
  found.push_back(&kBaselineLoops);
  return found;
}

}  // namespace

std::span<const Loops* const> available_loops() {
  static const std::vector<const Loops*> all = find_loops();
  return all;
}

}  // namespace trireme::comm
