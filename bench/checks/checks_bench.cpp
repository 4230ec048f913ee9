// The cost of the checks in every call.
//
//   checks_bench [--json] [--seconds N] [--size N]
//       a table, or one JSON object per line; N seconds per row (5); sizes 8 B, 4 KiB and 16 MiB, or the given one
//   checks_bench --alone on|off CALLS
//       this many all-reduces of 4 KiB in a group of one, for callgrind
//
// Two processes, private buffers, back-to-back calls. The checks are switched off and on again every few calls, in one
// program: whatever else differs between two builds or two runs (code placement, pages, other load on the machine) is
// the same for both. The cost is the median of the differences of adjacent turns, with its 95 % confidence interval (by
// ranks, so that outliers do not count). A row with the checks on in both turns shows the error of the method itself.
// The watch thread cannot be switched off: its CPU time is measured.
//
// Checksums are chosen when the ranks connect, so they are compared by interleaved runs of pairs of processes.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include "comm/checks.h"
#include "trireme/comm.h"
#include "trireme/units.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kShort = 4096;
constexpr std::int64_t kLong = std::int64_t{16} << 20;
constexpr double kBatch = 2e-5;  ///< seconds per turn, unless a call takes longer

struct Options {
  bool json = false;
  std::vector<std::int64_t> sizes{8, kShort, kLong};
  double seconds = 5;
};

/// One row: transport, operation and size.
struct Case {
  TransportKind transport = TransportKind::SharedMemory;
  Operation operation = Operation::Allreduce;
  std::int64_t bytes = 0;
  Method method{};
  bool changing = false;    ///< three calls in turn, with different lengths
  bool off = true;          ///< otherwise the checks stay on in both turns
  std::string_view note{};  ///< for the row's name
};

constexpr std::array kTransports{TransportKind::SharedMemory, TransportKind::Tcp};

// Statistics.

/// The median, and its 95 % confidence interval by ranks.
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
  return {values[low], values[values.size() / 2], values[values.size() - 1 - low]};
}

// Measuring.

void keep_to_core(Rank rank) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(rank), &one);
  sched_setaffinity(0, sizeof(one), &one);
}

/// Seconds counted by a clock of this process or thread.
double counted(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The calls to make in turn.
std::vector<Call> make_calls(const Case& what, std::span<float> data) {
  const CallOptions options{.method = what.method};
  std::vector<Call> calls;
  for (std::size_t less = 0; less < (what.changing ? 3 : 1); ++less) {
    const auto part = data.first(data.size() - std::min(less, data.size()));
    calls.push_back(what.operation == Operation::Broadcast ? broadcast<float>(part, 0, options)
                                                           : allreduce<float>(part, options));
  }
  return calls;
}

/// One turn: seconds per call. Excludes the first call, which waits for the other rank and mispredicts branches.
double time_turn(Group& group, std::span<const Call> which, std::int64_t calls, bool checked) {
  comm::checks_are_on.store(checked);
  group.run(which.front());
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) {
    group.run(which[static_cast<std::size_t>(i) % which.size()]);
  }
  return since(begin) / static_cast<double>(calls);
}

/// Calls per turn, and pairs of turns that take this long; all ranks must agree.
std::pair<std::int64_t, std::int64_t> plan(Group& group, std::span<const Call> call,
                                           double seconds) {
  double once = time_turn(group, call, 5, true);
  for (int i = 0; i < 4; ++i) {
    once = std::min(once, time_turn(group, call, 5, true));
  }
  const auto calls = std::max<std::int64_t>(1, std::llround(kBatch / once));
  const double pair = 2 * once * static_cast<double>(calls + 1);
  std::array<std::int64_t, 2> numbers{calls,
                                      std::max<std::int64_t>(10, std::llround(seconds / pair))};
  group.run(broadcast<std::int64_t>(numbers, 0));
  return {numbers[0], numbers[1]};
}

struct Cost {
  std::size_t pairs = 0;
  Middle checked;
  Middle without;
  Middle difference;
  double watching = 0;  ///< the watch thread's share of a core
};

Cost measure(Group& group, std::span<const Call> call, const Options& options, bool off) {
  const auto [calls, pairs] = plan(group, call, options.seconds);
  std::vector<double> checked;
  std::vector<double> without;
  std::vector<double> differences;
  const Clock::time_point begin = Clock::now();
  const double all = counted(CLOCK_PROCESS_CPUTIME_ID);
  const double mine = counted(CLOCK_THREAD_CPUTIME_ID);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const bool first = i % 2 == 0;  // alternate which goes first
    const double one = time_turn(group, call, calls, first || !off);
    const double two = time_turn(group, call, calls, !first || !off);
    checked.push_back(first ? one : two);
    without.push_back(first ? two : one);
    differences.push_back(checked.back() - without.back());
  }
  comm::checks_are_on.store(true);
  const double others =
      counted(CLOCK_PROCESS_CPUTIME_ID) - all - (counted(CLOCK_THREAD_CPUTIME_ID) - mine);
  return {differences.size(), middle(checked), middle(without), middle(differences),
          others / since(begin)};
}

// Showing.

std::string text_of(const Case& what) {
  return fmt::format("{}, {}{}{}", to_text(what.operation), to_text(what.transport),
                     what.method.kind == Method::Kind::Scheduled
                         ? fmt::format(" by {}", to_text(what.method.algorithm))
                         : "",
                     what.note);
}

void print_head(const Options& options) {
  if (!options.json) {
    fmt::print("{:<34} {:>8} {:>8} {:>11} {:>11}   {:<28} {:<28} {}\n", "", "size", "pairs",
               "checked us", "without us", "cost ns [95 %]", "cost % [95 %]", "watching %");
  }
}

void print_row(const Options& options, const Case& what, const Cost& cost) {
  const Middle& d = cost.difference;
  const double percent = 100 / cost.without.value;
  const auto interval = [](const Middle& m, double factor, int digits) {
    return fmt::format("{:+.{}f} [{:+.{}f} to {:+.{}f}]", m.value * factor, digits, m.low * factor,
                       digits, m.high * factor, digits);
  };
  if (options.json) {
    fmt::print(
        R"({{"case":"{}","bytes":{},"pairs":{},"checked_ns":{:.1f},"without_ns":{:.1f},"cost_ns":[{:.2f},{:.2f},{:.2f}],"cost_percent":[{:.4f},{:.4f},{:.4f}],"watching_percent":{:.4f}}})"
        "\n",
        text_of(what), what.bytes, cost.pairs, cost.checked.value * 1e9, cost.without.value * 1e9,
        d.low * 1e9, d.value * 1e9, d.high * 1e9, d.low * percent, d.value * percent,
        d.high * percent, 100 * cost.watching);
  } else {
    fmt::print("{:<34} {:>8} {:>8} {:>11.3f} {:>11.3f}   {:<28} {:<28} {:.4f}\n", text_of(what),
               to_text(Bytes{what.bytes}), cost.pairs, cost.checked.value * 1e6,
               cost.without.value * 1e6, interval(d, 1e9, 1), interval(d, percent, 3),
               100 * cost.watching);
  }
  std::fflush(stdout);
}

std::vector<Case> cases_of(TransportKind transport, const Options& options) {
  std::vector<Case> cases;
  for (const std::int64_t bytes : options.sizes) {
    cases.push_back({.transport = transport, .bytes = bytes, .off = false, .note = ", never off"});
    for (const Operation operation : {Operation::Allreduce, Operation::Broadcast}) {
      cases.push_back({.transport = transport, .operation = operation, .bytes = bytes});
    }
    if (transport == TransportKind::SharedMemory) {
      cases.push_back(
          {.transport = transport, .bytes = bytes, .changing = true, .note = ", changing"});
      cases.push_back(
          {.transport = transport, .bytes = bytes, .method = Method::scheduled(Algorithm::Ring)});
    }
  }
  return cases;
}

void measure_cases(World& world, TransportKind transport, const Options& options) {
  keep_to_core(world.rank());
  for (const Case& what : cases_of(transport, options)) {
    std::vector<float> data(static_cast<std::size_t>(what.bytes) / sizeof(float));
    const Cost cost = measure(world.all(), make_calls(what, data), options, what.off);
    if (world.rank() == 0) {
      print_row(options, what, cost);
    }
  }
}

int compare_checks(const Options& options) {
  int failed = 0;
  print_head(options);
  std::fflush(stdout);
  for (const TransportKind transport : kTransports) {
    failed += launch(2, [&](World& world) { measure_cases(world, transport, options); },
                     {.transport = transport});
  }
  return failed == 0 ? 0 : 1;
}

// Checksums.

/// Seconds of an all-reduce over TCP, with or without checksums, as measured by two processes for a while.
double time_over_tcp(std::int64_t bytes, WorldOptions::Checksums checksums, double seconds) {
  void* shared =
      mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    throw std::runtime_error("no memory to share");
  }
  const int failed =
      launch(2,
             [&](World& world) {
               keep_to_core(world.rank());
               std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float));
               const std::vector<Call> call{allreduce<float>(data)};
               const auto [calls, pairs] = plan(world.all(), call, seconds);
               std::vector<double> times;
               for (std::int64_t i = 0; i < 2 * pairs; ++i) {
                 times.push_back(time_turn(world.all(), call, calls, true));
               }
               if (world.rank() == 0) {
                 const double time = middle(times).value;
                 std::memcpy(shared, &time, sizeof(time));
               }
             },
             {.transport = TransportKind::Tcp, .checksums = checksums});
  double time = 0;
  std::memcpy(&time, shared, sizeof(time));
  munmap(shared, sizeof(double));
  return failed == 0 ? time : throw std::runtime_error("a rank failed");
}

void compare_checksums(const Options& options) {
  constexpr int kTurns = 16;
  for (const std::int64_t bytes : options.sizes) {
    std::vector<double> with;
    std::vector<double> without;
    std::vector<double> differences;
    for (int turn = 0; turn < kTurns; ++turn) {
      for (const bool on : {turn % 2 == 0, turn % 2 != 0}) {
        (on ? with : without)
            .push_back(time_over_tcp(
                bytes, on ? WorldOptions::Checksums::Network : WorldOptions::Checksums::Off,
                options.seconds / (2 * kTurns)));
      }
      differences.push_back(with.back() - without.back());
    }
    const Case what{.transport = TransportKind::Tcp, .bytes = bytes, .note = ", checksums"};
    print_row(options, what,
              {differences.size(), middle(with), middle(without), middle(differences), 0});
  }
}

// For callgrind: no second rank, so no waiting, and a reproducible instruction count.

int run_alone(bool checked, std::int64_t calls) {
  run_threads(1, [&](World& world) {
    std::vector<float> data(kShort / sizeof(float));
    const Call call = allreduce<float>(data);
    comm::checks_are_on.store(checked);
    for (std::int64_t i = 0; i < calls; ++i) {
      world.all().run(call);
    }
  });
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (arguments.size() == 4 && arguments[1] == "--alone") {
    return run_alone(arguments[2] == "on", std::stoll(arguments[3]));
  }
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--json") {
      options.json = true;
    } else if (arguments[i] == "--size" && i + 1 < arguments.size()) {
      options.sizes = {parse_bytes(arguments[++i]).count};
    } else if (arguments[i] == "--seconds" && i + 1 < arguments.size()) {
      options.seconds = std::stod(arguments[++i]);
    } else {
      fmt::print(stderr,
                 "usage: checks_bench [--json] [--seconds N] [--size N] | --alone on|off CALLS\n");
      return 2;
    }
  }
  const int failed = compare_checks(options);
  compare_checksums(options);
  return failed;
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
