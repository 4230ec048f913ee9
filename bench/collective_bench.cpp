// The speed of the schedule code itself: generating, timing, verifying, selecting. Checks each
// result first.
//
//   build/release/bench/collective_bench [--json]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "trireme/collective_cost.h"

namespace trireme {
namespace {

const CostModel kCosts = CostModel::uniform({1e-6}, {1e-9}, {1e-10});

struct Row {
  std::string what;
  double seconds;   ///< median over the repeats
  double limit;     ///< the target, in seconds
  double peak_mib;  ///< of the process so far
};

double median_seconds(int repeats, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void require(bool condition, const char* what) {
  if (!condition) {
    throw std::runtime_error(what);
  }
}

/// Generates and times a schedule, and compares the time with the formula. With uneven blocks the
/// formula is approximate.
void generate_and_time(Operation operation, Algorithm algorithm, Rank ranks, std::int64_t bytes) {
  const double timed =
      time_schedule(build(operation, algorithm, {.ranks = ranks}), {bytes}, kCosts).seconds.count;
  const double closed =
      formula(operation, algorithm, {.ranks = ranks}).at(static_cast<double>(bytes), kCosts).count;
  const double tolerance = bytes % ranks == 0 ? 1e-9 : 1e-2;
  require(std::abs(timed - closed) < tolerance * closed, "timed schedule differs from its formula");
}

void verify_roots(Operation operation, Algorithm algorithm, Rank ranks) {
  for (Rank root = 0; root < (has_root(operation) ? ranks : 1); ++root) {
    const Schedule schedule =
        build(operation, algorithm, {.ranks = ranks, .root = root, .segments = 3});
    require(problems(schedule).empty(), "a schedule is wrong");
  }
}

void verify_everything() {
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (Rank ranks = 1; ranks <= 32; ++ranks) {
        verify_roots(operation, algorithm, ranks);
      }
    }
  }
}

std::vector<Row> run() {
  std::vector<Row> rows;
  const auto add = [&](const std::string& what, double limit, int repeats,
                       const std::function<void()>& work) {
    const double seconds = median_seconds(repeats, work);
    rows.push_back({what, seconds, limit, peak_mib()});
  };
  add("broadcast by tree, p = 65536: generate and time", 1, 5,
      [] { generate_and_time(Operation::Broadcast, Algorithm::Mst, 65536, 1 << 20); });
  add("all-reduce by ring, p = 4096: generate and time", 1, 5,
      [] { generate_and_time(Operation::Allreduce, Algorithm::Ring, 4096, 1 << 22); });
  add("the same with blocks of unequal size", 1, 5,
      [] { generate_and_time(Operation::Allreduce, Algorithm::Ring, 4096, (1 << 22) + 1); });
  add("verify every operation, algorithm and root, p = 1..32", 60, 3, verify_everything);
  Selector selector(kCosts);
  const Selector::Query query{.operation = Operation::Allreduce, .ranks = 1024, .bytes = {1 << 20}};
  require(!selector.rank(query).empty(), "select");
  constexpr int kCalls = 100000;
  add("select once cached (per call)", 10e-6, 5, [&] {
    for (int i = 0; i < kCalls; ++i) {
      require(selector.rank(query).front().predicted.count > 0, "select");
    }
  });
  rows.back().seconds /= kCalls;
  return rows;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (!json) {
    fmt::print("{:<55} {:>12} {:>10} {:>14}\n", "what", "seconds", "bar", "peak MiB");
  }
  for (const trireme::Row& row : trireme::run()) {
    if (json) {
      fmt::print(
          "{{\"what\": \"{}\", \"seconds\": {:.4g}, \"bar_seconds\": {:g}, \"peak_mib\": "
          "{:.1f}}}\n",
          row.what, row.seconds, row.limit, row.peak_mib);
    } else {
      fmt::print("{:<55} {:>12.3g} {:>10.3g} {:>14.1f}\n", row.what, row.seconds, row.limit,
                 row.peak_mib);
    }
  }
  return 0;
}
