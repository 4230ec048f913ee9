#include "cli/measure_host.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/compute_probe.h"
#include "trireme/cpu_device.h"
#include "trireme/sample_steps.h"

namespace trireme::cli {

measure::HostProbe measure_host(const measure::ProbeOptions& options) {
  const bool show_progress = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](const std::string& next) {
    if (show_progress) {
      fmt::print(stderr, "\r\x1b[K{} …", next);
      std::fflush(stderr);
    }
  };
  // Kernels first: the rest ends with threads, after which this process must not fork.
  const ComputeCosts compute = measure::probe_compute(
      {.cores = options.ranks,
       .programs = sample_steps({.quick = options.quick}),
       .make_device = [](int ranks, int threads) { return cpu_devices(threads)({.ranks = ranks}); },
       .repeats = options.quick ? 5 : 9},
      progress);
  measure::HostProbe probe = measure::probe_host(options, progress);
  probe.compute = compute;
  if (show_progress) {
    fmt::print(stderr, "\r\x1b[K");
  }
  return probe;
}

}  // namespace trireme::cli
