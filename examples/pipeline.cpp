// Training steps: gradients come in buckets, and each bucket is summed over the ranks while the next
// one is computed. Rank 3 is killed during training; the others continue without it.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <span>
#include <vector>

#include <trireme/comm.h>

namespace {

using Buckets = std::vector<std::vector<float>>;

void compute(std::span<float> bucket) {
  std::ranges::fill(bucket, 1.0F);
}

void sum_gradients(trireme::Group& group, Buckets& buckets) {
  std::vector<trireme::Pending> pending;
  for (std::vector<float>& bucket : buckets) {
    compute(bucket);
    pending.push_back(group.start(trireme::allreduce<float>(bucket)));
  }
  for (trireme::Pending& sum : pending) {
    sum.wait();  // throws its error
  }
}

void train(trireme::World& world) {
  Buckets buckets(4, std::vector<float>(100'000));
  trireme::Group group = world.all();
  for (int step = 0; step < 4; ++step) {
    if (world.rank() == 3 && step == 2) {
      std::raise(SIGKILL);
    }
    try {
      sum_gradients(group, buckets);
    } catch (const trireme::CommError& error) {
      if (group.rank() == 0) {
        std::printf("%s\n", error.what());
      }
      group = group.shrink();  // the survivors; repeat the step
      sum_gradients(group, buckets);
    }
    if (group.rank() == 0) {
      std::printf("step %d: %d ranks, sum %g\n", step, group.size(), buckets.back().back());
    }
  }
}

}  // namespace

int main() {
  const int code = trireme::launch(4, train);
  return code == 1 ? 0 : 1;  // a rank was killed, and launch() reports it
}
