// What the checks of every call cost: this build's times, or a comparison with another build.
//
//   checks_bench                        times of this build, a line for each case
//   checks_bench --against PROGRAM      in turns with that build (of TRIREME_COMM_CHECKS=OFF)
//                [--rounds N]
//
// A case is an operation of a size between two processes through shared memory. Its time is that of a
// call among some in a row, a low percentile over many such batches. The two builds run in turns, many times; the cost
// is the median of the differences of neighbouring turns, with the interval that holds it by 95 % (by
// ranks, so that outliers do not count).
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/bench_page.h"
#include "trireme/comm.h"
#include "trireme/units.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::int64_t, 3> kSizes{8, 4096, std::int64_t{16} << 20};
constexpr Seconds kTimeForACase{0.04};
constexpr Seconds kBatch{2e-5};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// One build.

double time_calls(World& world, const Call& call, std::int64_t calls) {
  world.all().barrier();
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) {
    world.all().run(call);
  }
  return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
}

/// Seconds of one call: the 10th percentile over batches so short that most of them are not
/// interrupted by whatever else the machine does.
double measure(World& world, const Call& call) {
  double once = time_calls(world, call, 3);
  for (int i = 0; i < 3; ++i) {
    once = std::min(once, time_calls(world, call, 5));
  }
  std::array<std::int64_t, 2> plan{
      std::max<std::int64_t>(1, std::llround(kBatch.count / once)),
      std::max<std::int64_t>(5, std::llround(kTimeForACase.count / std::max(once, kBatch.count)))};
  world.all().run(broadcast<std::int64_t>(plan, 0));
  const auto [calls, batches] = plan;
  std::vector<double> times(static_cast<std::size_t>(batches));
  std::ranges::generate(times, [&, calls = calls] { return time_calls(world, call, calls); });
  std::ranges::sort(times);
  return times[times.size() / 10];
}

void measure_all(World& world) {
  cli::keep_to_core(world.rank(), world.size());
  for (const std::int64_t bytes : kSizes) {
    std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float));
    const std::span<float> span(data);
    for (const auto& [name, call] : {std::pair{"allreduce", allreduce<float>(span)},
                                     std::pair{"broadcast", broadcast<float>(span, 0)}}) {
      const double seconds = measure(world, call);
      if (world.rank() == 0) {
        fmt::print("{} {} {:.6g}\n", name, bytes, seconds * 1e9);
      }
    }
  }
}

// Two builds.

using Times = std::map<std::pair<std::int64_t, std::string>, double>;  ///< nanoseconds

Times run_program(const std::string& program) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("'" + program + "'").c_str(), "r"),
                                                   pclose);
  Times times;
  std::array<char, 64> name{};
  long long bytes = 0;
  double nanoseconds = 0;
  while (pipe && std::fscanf(pipe.get(), "%63s %lld %lf", name.data(), &bytes, &nanoseconds) == 3) {
    times[{bytes, name.data()}] = nanoseconds;
  }
  if (times.size() != 2 * kSizes.size()) {
    throw std::runtime_error(program + " did not give all times");
  }
  return times;
}

/// The median, and the 95 % interval around it by ranks.
struct Middle {
  double low = 0;
  double value = 0;
  double high = 0;
};

Middle middle(std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  const auto low =
      static_cast<std::size_t>(std::max(0.0, std::floor((n - 1.96 * std::sqrt(n)) / 2)));
  return {values[low], median(values), values[values.size() - 1 - low]};
}

void compare(const std::string& self, const std::string& other, int rounds) {
  std::map<Times::key_type, std::vector<double>> with;
  std::map<Times::key_type, std::vector<double>> without;
  for (int round = 0; round < rounds; ++round) {
    // Which goes first changes, so that a drift of the machine does not favour one.
    const bool first = round % 2 == 0;
    const Times one = run_program(first ? self : other);
    const Times two = run_program(first ? other : self);
    for (const auto& [key, time] : first ? one : two) {
      with[key].push_back(time);
    }
    for (const auto& [key, time] : first ? two : one) {
      without[key].push_back(time);
    }
  }
  fmt::print("{:<10} {:>9} {:>12} {:>12} {:>12}   {:<28} {}\n", "operation", "size", "checked ns",
             "without ns", "least both", "cost ns [95 %]", "cost %");
  for (const auto& [key, times] : with) {
    std::vector<double> costs;
    for (std::size_t i = 0; i < times.size(); ++i) {
      costs.push_back(times[i] - without[key][i]);
    }
    const Middle cost = middle(costs);
    const double base = median(without[key]);
    fmt::print("{:<10} {:>9} {:>12.1f} {:>12.1f} {:>12}   {:<28} {:+.2f} [{:+.2f} to {:+.2f}]\n",
               key.second, to_text(Bytes{key.first}), median(times), base,
               fmt::format("{:.0f}/{:.0f}", *std::ranges::min_element(times),
                           *std::ranges::min_element(without[key])),
               fmt::format("{:+.1f} [{:+.1f} to {:+.1f}]", cost.value, cost.low, cost.high),
               100 * cost.value / base, 100 * cost.low / base, 100 * cost.high / base);
  }
}

int run(const std::vector<std::string>& arguments) {
  std::string other;
  int rounds = 40;
  for (std::size_t i = 1; i < arguments.size(); i += 2) {
    const bool has_value = i + 1 < arguments.size();
    if (has_value && arguments[i] == "--against") {
      other = arguments[i + 1];
    } else if (has_value && arguments[i] == "--rounds") {
      rounds = std::max(2, std::atoi(arguments[i + 1].c_str()));  // NOLINT(cert-err34-c)
    } else {
      fmt::print(stderr, "usage: checks_bench [--against PROGRAM] [--rounds N]\n");
      return 2;
    }
  }
  if (other.empty()) {
    return launch(2, measure_all, {.transport = TransportKind::SharedMemory});
  }
  compare(arguments[0], other, rounds);
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::run({argv, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "checks_bench: {}\n", error.what());
    return 1;
  }
}
