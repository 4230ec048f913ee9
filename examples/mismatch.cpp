// Ranks that disagree: rank 2 has one more element than the others. No rank gets a wrong sum or
// hangs; each throws an error that shows who called what.
#include <vector>

#include <trireme/comm.h>

int main() {
  return trireme::launch(4, [](trireme::World& world) {
    std::vector<float> data(world.rank() == 2 ? 1001 : 1000);
    world.all().run(trireme::allreduce<float>(data, {.site = TRIREME_HERE}));
  });
}
