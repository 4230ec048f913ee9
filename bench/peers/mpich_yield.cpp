// Makes MPICH yield the CPU while it waits, if ranks outnumber cores. Debian's MPICH 4.0 (device
// ch4:ucx) never does: it ignores MPIR_CVAR_POLLS_BEFORE_YIELD, with one thread or with many, and
// an all-reduce of 8 bytes on 4 ranks and 2 cores takes 4 ms instead of 15 us.
//
// Every iteration of its waiting loop calls UCX's ucp_worker_progress. The one here interposes it.
#include <cstdlib>

#include <dlfcn.h>
#include <sched.h>

namespace {

/// Iterations without progress before a yield; tried 1 to 100, and 4 was as good as any.
constexpr int kIdleTurns = 4;

using Progress = unsigned (*)(void*);

}  // namespace

extern "C" unsigned ucp_worker_progress(void* worker) {
  static const auto real = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets the environment here
  static const bool yields = std::getenv("PEERS_YIELD") != nullptr;
  static int idle = 0;
  const unsigned events = real(worker);
  idle = events == 0 ? idle + 1 : 0;
  if (yields && idle >= kIdleTurns) {
    idle = 0;
    sched_yield();
  }
  return events;
}
