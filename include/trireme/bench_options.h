// Options of a benchmark, as entered by the user. Values; any thread.
#pragma once

#include <string>

#include "trireme/bench.h"

namespace trireme::measure {

struct BenchOptions {
  std::string operations;                ///< "allreduce,broadcast" or "all"
  std::string sizes = "8..16M";          ///< see parse_size_list()
  std::string algorithms = "automatic";  ///< "all", or see parse_method_list()
  Rank ranks = 0;                        ///< 0: one per core, at least 2
  std::string transport = "shm";
  bool encrypt = false;
  std::string dtype = "f32";
  std::string buffers = "private";  ///< or "shared"
  int repeats = 0;                  ///< 0: chosen by the duration of a call
};

/// Throws Error(Usage) that names the option.
[[nodiscard]] BenchPlan make_bench_plan(const BenchOptions& options);

}  // namespace trireme::measure
