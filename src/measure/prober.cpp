#include "measure/prober.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "measure/bench_run.h"

namespace trireme::measure {
namespace {

constexpr Seconds kTimeForASample{0.004};

}  // namespace

Estimate estimate(const AllSamples& samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return mean_of({sorted.begin() + 2, sorted.end() - 2});
}

Samples less(Samples samples, const Samples& overhead) {
  const double cost = *std::ranges::min_element(overhead);
  for (double& sample : samples) {
    sample = std::max(sample / 10, sample - cost);
  }
  return samples;
}

Samples divided(Samples samples, double divisor) {
  for (double& sample : samples) {
    sample /= divisor;
  }
  return samples;
}

Samples Prober::time(Rank active, const std::function<void()>& work,
                     const std::function<void()>& before) {
  const auto once = [&] {
    if (before) {
      before();
    }
    page_.start();
    if (rank_ < active) {
      work();
    }
    return page_.finish(rank_);
  };
  (void)once();
  const double shortest = std::min(once(), once()).count;
  const double fitting = kTimeForASample.count / std::max(shortest, 1e-6);
  const auto calls = static_cast<std::size_t>(
      page_.agree(rank_, static_cast<std::int64_t>(std::clamp(fitting, 1.0, 50.0))));
  Samples samples{};
  for (double& sample : samples) {
    std::vector<Seconds> times(calls);
    std::ranges::generate(times, once);
    sample = summarize(std::move(times)).median.count;
  }
  return samples;
}

Samples Prober::time(const Call& call) {
  return time(world_.size(), [&] { world_.all().run(call); });
}

Samples Prober::barriers_in_a_row() {
  constexpr int kRow = 50;
  const Samples row = time(world_.size(), [&] {
    for (int i = 0; i < kRow; ++i) {
      world_.all().barrier();
    }
  });
  return divided(row, kRow);
}

Sheet::Sheet(std::span<std::byte> memory)
    : first_(reinterpret_cast<AllSamples*>(memory.data())),
      next_(first_),
      end_(first_ + memory.size() / sizeof(AllSamples)) {}

void Sheet::fill(const std::function<void()>& measure) {
  for (pass_ = 0; pass_ < kPasses; ++pass_) {
    next_ = first_;
    measure();
  }
}

void Sheet::put(const Samples& samples, Rank rank) {
  if (rank == 0 && next_ < end_) {
    std::ranges::copy(samples,
                      next_++->begin() + static_cast<std::ptrdiff_t>(pass_ * samples.size()));
  }
}

AllSamples Sheet::take_per_byte(double bytes) {
  AllSamples samples = take();
  for (double& sample : samples) {
    sample /= bytes;
  }
  return samples;
}

}  // namespace trireme::measure
