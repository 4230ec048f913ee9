// ps_simulate --seed N [--count N] [--trace]: replays runs of the simulated parameter server.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "ps/simulator.h"

int main(int argc, char** argv) {
  trireme::ps::SimulationOptions options;
  std::uint64_t count = 1;
  const auto number = [&](int at, std::uint64_t& into) {
    if (at < argc) {
      std::from_chars(argv[at], argv[at] + std::strlen(argv[at]), into);
    }
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--seed") {
      number(++i, options.seed);
    } else if (option == "--count") {
      number(++i, count);
    } else if (option == "--trace") {
      options.trace = true;
    }
  }
  int failed = 0;
  trireme::ps::SimulationResult total;
  for (const std::uint64_t end = options.seed + count; options.seed < end; ++options.seed) {
    const auto result = trireme::ps::simulate(options);
    total.events += result.events;
    total.crashes += result.crashes;
    total.pauses += result.pauses;
    total.starvations += result.starvations;
    total.leaves += result.leaves;
    total.acknowledged += result.acknowledged;
    total.reads += result.reads;
    total.iterations += result.iterations;
    total.epochs += result.epochs;
    if (!result.problem.empty()) {
      fmt::print("seed {}: {}\n", options.seed, result.problem);
      ++failed;
    }
  }
  fmt::print(
      "{} runs, {} failed: {} events, {} crashes, {} planned restarts, {} pauses, {} starvations, "
      "{} "
      "epochs, {} acknowledged pushes, {} reads, {} iterations\n",
      count, failed, total.events, total.crashes, total.leaves, total.pauses, total.starvations,
      total.epochs, total.acknowledged, total.reads, total.iterations);
  return failed == 0 ? 0 : 1;
}
