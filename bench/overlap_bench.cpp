// How much of an all-reduce overlaps with concurrent computation.
//
//   overlap_bench [--ranks P] [--size BYTES] [--trace FILE]
//
// Three times, medians over repeats, the slowest rank counts: the call alone; matrix products that take as long, alone;
// both, the call started before the products and waited for after them. The overlap is (call + products - both) / call:
// 1 if the call costs nothing, 0 if it might as well have come after. A separate thread drives the call: with as many
// cores as ranks it takes its time from the products, and at most the time that both wait for memory can overlap.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "trireme/comm.h"
#include "trireme/cores.h"
#include "trireme/trace.h"
#include "trireme/units.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  Rank ranks = 2;
  Bytes size{std::int64_t{64} << 20};
  std::string trace{};
};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Products of matrices that stay in cache: purely compute-bound.
class Products {
 public:
  void run(std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
      multiply();
    }
  }
  [[nodiscard]] float check() const { return c_[0]; }

 private:
  static constexpr std::size_t kSize = 96;

  void multiply() {
    for (std::size_t i = 0; i < kSize; ++i) {
      for (std::size_t k = 0; k < kSize; ++k) {
        const float factor = a_[i * kSize + k];
        for (std::size_t j = 0; j < kSize; ++j) {
          c_[i * kSize + j] += factor * b_[k * kSize + j];
        }
      }
    }
  }

  std::vector<float> a_ = std::vector<float>(kSize * kSize, 1e-3F);
  std::vector<float> b_ = std::vector<float>(kSize * kSize, 1e-3F);
  std::vector<float> c_ = std::vector<float>(kSize * kSize, 0.0F);
};

/// The longest of all ranks' times.
double slowest(World& world, double seconds) {
  std::vector<double> data{seconds};
  world.all().run(allreduce<double>(std::span(data), {.reduction = Reduction::Max}));
  return data[0];
}

template <class Body>
double time_of(World& world, const Body& body) {
  constexpr int kRepeats = 9;
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    world.all().barrier();
    const Clock::time_point begin = Clock::now();
    body();
    times.push_back(slowest(world, since(begin)));
  }
  return median(times);
}

void write_trace(const std::string& file, double call, double products, double both) {
  Trace trace;
  trace.title = "all-reduce behind matrix products";
  const TrackId compute = trace.add_track("rank 0", "compute");
  const TrackId lane = trace.add_track("rank 0", "comm");
  trace.add_span({.track = compute,
                  .name = "products",
                  .category = "compute",
                  .start = {0},
                  .duration = {std::min(both, products)}});
  trace.add_span({.track = lane,
                  .name = "all-reduce",
                  .category = "comm",
                  .start = {0},
                  .duration = {std::max(call, both)}});
  std::ofstream(file) << to_chrome_json(trace);
}

void measure(World& world, const Options& options) {
  SharedSpan<float> data =
      world.allocate<float>(static_cast<std::size_t>(options.size.count) / sizeof(float));
  const Call call = allreduce<float>(data.span());
  Products products;
  world.all().run(call);
  const double alone = time_of(world, [&] { world.all().run(call); });
  const double started = time_of(world, [&] { world.all().start(call).wait(); });
  const Clock::time_point begin = Clock::now();
  products.run(200);
  const auto count = static_cast<std::int64_t>(200 * started / slowest(world, since(begin)));
  const double computing = time_of(world, [&] { products.run(count); });
  double compute_while = 0;
  const double both = time_of(world, [&] {
    Pending pending = world.all().start(call);
    const Clock::time_point start = Clock::now();
    products.run(count);
    compute_while = since(start);
    pending.wait();
  });
  if (world.rank() == 0) {
    fmt::print("{} ranks on {} cores, all-reduce of {} in shared buffers (check {})\n",
               options.ranks, usable_cores(), to_text(options.size),
               products.check() > 0 ? "ok" : "failed");
    fmt::print("  call alone, blocking   {:>9.3f} ms\n", alone * 1e3);
    fmt::print("  call alone, started    {:>9.3f} ms\n", started * 1e3);
    fmt::print("  products alone         {:>9.3f} ms\n", computing * 1e3);
    fmt::print("  both                   {:>9.3f} ms (products in it {:.3f} ms)\n", both * 1e3,
               compute_while * 1e3);
    fmt::print("  overlapped             {:>9.0f} %\n",
               100 * (started + computing - both) / started);
    if (!options.trace.empty()) {
      write_trace(options.trace, started, compute_while, both);
    }
  }
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "--ranks") {
      options.ranks = static_cast<Rank>(std::stoi(words[i + 1]));
    } else if (words[i] == "--size") {
      options.size = parse_bytes(words[i + 1]);
    } else if (words[i] == "--trace") {
      options.trace = words[i + 1];
    }
  }
  return options;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const trireme::Options options = trireme::parse({argv + 1, argv + argc});
  return trireme::launch(options.ranks,
                         [&](trireme::World& world) { trireme::measure(world, options); });
}
