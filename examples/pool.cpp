// Rank 0 hands out the samples of an epoch to three workers of different speeds. Rank 3 is killed while it has some;
// the others get them, and each sample is consumed once.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <span>
#include <thread>
#include <vector>

#include <trireme/sampler.h>

namespace {

constexpr std::int64_t kSamples = 10'000;

void serve(trireme::World& world) {
  std::vector<int> times(kSamples);  // how often each sample was consumed
  trireme::SampleMaster master(world.all(),
                               [&](trireme::Rank, std::span<const trireme::SampleIndex> samples) {
                                 for (const trireme::SampleIndex sample : samples) {
                                   ++times[static_cast<std::size_t>(sample)];
                                 }
                               });
  const trireme::ServeReport report = master.serve_pool({.samples = kSamples, .seed = 1});
  std::printf("%td of %td samples were consumed once\n", std::ranges::count(times, 1),
              std::ssize(times));
  for (const auto& [rank, why] : report.lost) {
    std::printf("rank %d is gone: %s\n", rank, why.c_str());
  }
}

void work(trireme::World& world) {
  const auto sampler = trireme::make_sampler(world.all(), 0);
  for (int batch = 0;; ++batch) {
    const std::vector<trireme::SampleIndex> samples = sampler->take(32);
    if (samples.empty()) {
      return;  // the epoch is over
    }
    if (world.rank() == 3 && batch == 2) {
      std::raise(SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(world.rank()));  // trains on them
    sampler->confirm(std::ssize(samples));
  }
}

}  // namespace

int main() {
  const int code = trireme::launch(
      4, [](trireme::World& world) { world.rank() == 0 ? serve(world) : work(world); });
  return code == 1 ? 0 : 1;  // a rank was killed, and launch() reports it
}
