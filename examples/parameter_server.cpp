// Sparse logistic regression with two parameter servers and three workers: each pushes and pulls only the weights that
// its samples touch.
#include "trireme/parameter_server.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <thread>

using namespace trireme::ps;

int main() {
  const std::string secret = "an example, not a secret";
  const ParameterCoordinator coordinator({.secret = secret, .lease = {2}, .min_servers = 2});
  const ParameterServer first(
      {.number = 0, .coordinator = coordinator.address(), .secret = secret, .lease = {2}});
  const ParameterServer second(
      {.number = 1, .coordinator = coordinator.address(), .secret = secret, .lease = {2}});
  std::vector<int> right(3);
  const auto work = [&](unsigned worker) {
    ParameterClient client({.coordinator = coordinator.address(), .secret = secret, .lease = {2}});
    const TableHandle weights = client.create_table({.name = "weights",
                                                     .keys = 1'000'000,
                                                     .update = "adagrad",
                                                     .parameters = {0.5F, 1e-6F},
                                                     .layout = TableLayout::Sparse});
    std::mt19937 random(worker);
    for (int step = 0; step < 2000; ++step) {
      std::set<Key> features;  // the label is 1 if more than half of the features are even
      while (features.size() < 9) {
        features.insert(random() % 50 * 1000 + random() % 2);
      }
      const std::vector<Key> keys(features.begin(), features.end());
      int even = 0;
      for (const Key key : keys)
        even += key % 2 == 0 ? 1 : 0;
      const float label = even > 4 ? 1 : 0;
      std::vector<float> w(keys.size());
      client.pull(weights, Keys::list(keys), w).wait();
      float sum = 0;
      for (const float weight : w)
        sum += weight;
      if (step >= 1000)
        right[worker] += (sum > 0) == (label > 0) ? 1 : 0;
      const float error = 1 / (1 + std::exp(-sum)) - label;
      client.push(weights, Keys::list(keys), std::vector<float>(keys.size(), error)).wait();
    }
  };
  std::vector<std::thread> workers;
  for (unsigned w = 0; w < 3; ++w)
    workers.emplace_back(work, w);
  for (std::thread& worker : workers)
    worker.join();
  std::printf("accuracy on the last half: %.0f %%\n", (right[0] + right[1] + right[2]) / 30.0);
}
