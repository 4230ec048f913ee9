// Sparse logistic regression with two parameter servers and three workers: each pushes and pulls only the weights that
// its samples touch.
#include "trireme/parameter_server.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <thread>

namespace ps = trireme::ps;

int main() {
  const std::string secret = "an example, not a secret";
  const ps::ParameterCoordinator coordinator({.secret = secret, .lease = {2}, .min_servers = 2});
  const ps::ParameterServer first(
      {.number = 0, .coordinator = coordinator.address(), .secret = secret, .lease = {2}});
  const ps::ParameterServer second(
      {.number = 1, .coordinator = coordinator.address(), .secret = secret, .lease = {2}});
  std::vector<int> right(3);
  const auto work = [&](unsigned worker) {
    ps::ParameterClient client(
        {.coordinator = coordinator.address(), .secret = secret, .lease = {2}});
    const ps::TableHandle weights = client.create_table({.name = "weights",
                                                         .keys = 1'000'000,
                                                         .update = "adagrad",
                                                         .parameters = {0.5F, 1e-6F},
                                                         .layout = ps::TableLayout::Sparse});
    std::mt19937 random(worker);
    for (int step = 0; step < 2000; ++step) {
      std::set<ps::Key> features;  // the label is 1 if more than half of the features are even
      while (features.size() < 9) {
        features.insert(random() % 50 * 1000 + random() % 2);
      }
      const std::vector<ps::Key> keys(features.begin(), features.end());
      const auto even = std::ranges::count_if(keys, [](ps::Key key) { return key % 2 == 0; });
      const float label = even > 4 ? 1 : 0;
      const ps::Compute compute = [&](std::span<const float> w, std::span<float> gradient) {
        const float sum = std::accumulate(w.begin(), w.end(), 0.0F);
        right[worker] += step >= 1000 && (sum > 0) == (label > 0) ? 1 : 0;
        std::ranges::fill(gradient, 1 / (1 + std::exp(-sum)) - label);
      };
      client.iterate(weights, ps::Keys::list(keys), compute);  // pull, compute, push, update
    }
  };
  std::array<std::thread, 3> workers{std::thread(work, 0), std::thread(work, 1),
                                     std::thread(work, 2)};
  std::ranges::for_each(workers, &std::thread::join);
  std::printf("accuracy on the last half: %.0f %%\n", (right[0] + right[1] + right[2]) / 30.0);
}
