// Four processes add up their vectors. Each contributes its rank; all get 0 + 1 + 2 + 3.
#include <cstdio>
#include <vector>

#include <trireme/comm.h>

int main() {
  return trireme::launch(4, [](trireme::World& world) {
    std::vector<float> gradient(1'000'000, static_cast<float>(world.rank()));

    world.all().run(trireme::allreduce<float>(gradient));  // in place

    std::printf("rank %d of %d: %g\n", world.rank(), world.size(), gradient.back());
  });
}
