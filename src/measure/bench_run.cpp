#include "measure/bench_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "measure/bench_data.h"
#include "trireme/comm.h"
#include "trireme/error.h"

namespace trireme::measure {
namespace {

constexpr Seconds kTimeForACase{0.08};
constexpr int kMinCalls = 5;
constexpr int kMaxCalls = 200;
/// The methods of a cell run interleaved, so that noise of the machine hits all of them.
constexpr int kTurns = 4;
/// Short calls get faster for a while: caches, branch predictors, page tables.
constexpr int kWarmUps = 6;
constexpr Seconds kLongCall{0.02};

/// A result in memory that the ranks and their parent share.
struct RawResult {
  double median;
  double least;
  double spread;
  int calls;
  bool correct;
  std::array<char, 32> chosen;
};

double at_part(const std::vector<Seconds>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double rest = place - static_cast<double>(below);
  return sorted[below].count * (1 - rest) + sorted[above].count * rest;
}

/// A buffer of a rank, of the plan's kind.
class BenchBuffer {
 public:
  BenchBuffer(World& world, BufferKind kind, std::int64_t bytes) {
    if (kind == BufferKind::Shared && bytes > 0) {
      shared_ = world.allocate<std::uint8_t>(bytes);
    } else {
      own_ = HostBuffer(DType::U8, bytes);
    }
  }
  [[nodiscard]] std::span<std::byte> bytes() {
    return shared_.size() > 0 ? std::as_writable_bytes(shared_.span()) : own_.raw();
  }

 private:
  HostBuffer own_;
  SharedSpan<std::uint8_t> shared_;
};

/// The cases of one operation and size on one rank: all use the same buffers.
class Cell {
 public:
  Cell(World& world, BenchPage& page, const BenchPlan& plan, std::span<const BenchCase> cases)
      : world_(world),
        page_(page),
        plan_(plan),
        cases_(cases),
        task_{.operation = cases.front().operation,
              .dtype = plan.dtype,
              .count = cases.front().count,
              .rank = world.rank(),
              .ranks = world.size()},
        input_(world, plan.buffers, task_.input_elements() * size_of(plan.dtype).count),
        output_(world, plan.buffers, task_.output_elements() * size_of(plan.dtype).count) {}

  /// Rank 0 writes the results.
  void run(std::span<RawResult> results) {
    std::vector<int> calls;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      results[i].correct = check(cases_[i]);
      calls.push_back(warm_up(call(cases_[i])));
    }
    std::vector<std::vector<Seconds>> times(cases_.size());
    for (int turn = 0; turn < kTurns; ++turn) {
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        measure(call(cases_[i]), calls[i] * (turn + 1) / kTurns - calls[i] * turn / kTurns,
                times[i]);
      }
    }
    if (task_.rank == 0) {
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        write(results[i], summarize(std::move(times[i])), world_.all().method_of(call(cases_[i])));
      }
    }
    page_.barrier();  // no rank frees its buffers while another still uses them
  }

 private:
  [[nodiscard]] BenchBytes bytes() { return {input_.bytes(), output_.bytes()}; }
  [[nodiscard]] Call call(const BenchCase& which) {
    return make_bench_call(task_, bytes(), which.method);
  }

  /// Whether every rank has the correct result; the same on all ranks.
  [[nodiscard]] bool check(const BenchCase& which) {
    const BenchData data(task_);
    data.fill(bytes());
    page_.barrier();
    const Call once = call(which);
    world_.all().run(once);
    const bool wrong = !data.is_right(once.output);
    return page_.count(task_.rank, wrong) == 0;
  }

  [[nodiscard]] Seconds once(const Call& call) {
    page_.start();
    world_.all().run(call);
    return page_.finish(task_.rank);
  }

  /// How many calls to time.
  [[nodiscard]] int warm_up(const Call& call) {
    Seconds time = once(call);
    for (int i = 0; i < kWarmUps && time < kLongCall; ++i) {
      time = std::min(time, once(call));
    }
    const double fitting = kTimeForACase.count / std::max(time.count, 1e-7);
    const int worthwhile = static_cast<int>(
        std::clamp(fitting, static_cast<double>(kMinCalls), static_cast<double>(kMaxCalls)));
    const std::int64_t wanted = plan_.repeats > 0 ? plan_.repeats : worthwhile;
    return static_cast<int>(page_.agree(task_.rank, wanted));
  }

  void measure(const Call& call, int calls, std::vector<Seconds>& times) {
    for (int i = 0; i < calls; ++i) {
      times.push_back(once(call));
    }
  }

  static void write(RawResult& result, const BenchTimes& times, const std::string& chosen) {
    result.median = times.median.count;
    result.least = times.least.count;
    result.spread = times.spread;
    result.calls = times.calls;
    chosen.copy(result.chosen.data(), result.chosen.size() - 1);
  }

  World& world_;
  BenchPage& page_;
  const BenchPlan& plan_;
  std::span<const BenchCase> cases_;
  BenchTask task_;
  BenchBuffer input_;
  BenchBuffer output_;
};

void run_cells(World& world, BenchPage& page, const BenchPlan& plan,
               const BenchProgress& progress) {
  auto* results = reinterpret_cast<RawResult*>(page.results().data());
  std::vector<RawResult> unused(plan.cases.size());
  for_each_cell(plan.cases, [&](std::size_t first, std::size_t last) {
    if (world.rank() == 0) {
      progress(first, plan.cases[first]);
    }
    RawResult* place = world.rank() == 0 ? results : unused.data();
    Cell(world, page, plan, std::span(plan.cases).subspan(first, last - first))
        .run({place + first, last - first});
  });
}

}  // namespace

BenchTimes summarize(std::vector<Seconds> times) {
  std::ranges::sort(times);
  const double median = at_part(times, 0.5);
  return {.median = {median},
          .least = times.front(),
          .spread = median > 0 ? (at_part(times, 0.9) - at_part(times, 0.1)) / median : 0,
          .calls = static_cast<int>(times.size())};
}

void run_bench_ranks(Rank ranks, const WorldOptions& options, BenchPage& page,
                     const std::function<void(World&)>& body) {
  const auto guarded = [&](World& world) {
    try {
      pin_to_core(world.rank(), world.size());
      body(world);
    } catch (...) {
      page.abort();
      throw;
    }
  };
  if (options.transport == TransportKind::InProcess) {
    run_threads(ranks, guarded, options);
  } else if (launch(ranks, guarded, options) != 0) {
    throw Error(ErrorKind::System, "a rank failed; its error is above");
  }
}

std::vector<BenchResult> run_bench(const BenchPlan& plan, const BenchProgress& progress) {
  BenchPage page(plan.ranks, plan.cases.size() * sizeof(RawResult));
  const WorldOptions options{.transport = plan.transport,
                             .encrypt = plan.encrypt,
                             .costs = plan.costs,
                             .tuning = plan.tuning};
  run_bench_ranks(plan.ranks, options, page,
                  [&](World& world) { run_cells(world, page, plan, progress); });
  const auto* raw = reinterpret_cast<const RawResult*>(page.results().data());
  std::vector<BenchResult> results;
  for (std::size_t i = 0; i < plan.cases.size(); ++i) {
    results.push_back({.times = {.median = {raw[i].median},
                                 .least = {raw[i].least},
                                 .spread = raw[i].spread,
                                 .calls = raw[i].calls},
                       .correct = raw[i].correct,
                       .chosen = raw[i].chosen.data()});
  }
  return results;
}

}  // namespace trireme::measure
