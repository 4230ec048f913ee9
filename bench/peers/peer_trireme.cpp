// Trireme's program: forks its ranks.
//
//   peer_trireme PAGE RANKS VARIANT
//
// trireme: private buffers; trireme-shared: shared-memory buffers (World::allocate); trireme-tcp:
// private buffers, and loopback TCP even though the ranks are on one host.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "harness.h"
#include "trireme/comm.h"

namespace peers {
namespace {

using trireme::World;

trireme::Call call_of(const Task& task, std::span<float> input, std::span<float> output) {
  switch (task.operation) {
    case Operation::Allreduce:
      return trireme::allreduce<float>(input, output);
    case Operation::ReduceScatter:
      return trireme::reduce_scatter<float>(input, output);
    case Operation::Allgather:
      return trireme::allgather<float>(input, output);
    case Operation::Broadcast:
      return trireme::broadcast<float>(output, 0);
    case Operation::Alltoall:
      return trireme::alltoall<float>(input, output);
    case Operation::Reduce:
      return trireme::reduce<float>(input, output, 0);
    case Operation::Gather:
      return trireme::gather<float>(input, output, 0);
    case Operation::Scatter:
      return trireme::scatter<float>(input, output, 0);
  }
  throw trireme::Error(trireme::ErrorKind::Usage, "unknown operation");
}

class Trireme final : public Adapter {
 public:
  Trireme(World& world, bool shared) : world_(world), shared_(shared) {}

  [[nodiscard]] Buffer allocate(std::int64_t count) override {
    if (!shared_) {
      return Adapter::allocate(count);
    }
    auto memory = std::make_shared<trireme::SharedSpan<float>>(world_.allocate<float>(count));
    return {memory, memory->data()};
  }

  [[nodiscard]] std::function<void()> prepare(const Task& task, float* input,
                                              float* output) override {
    const auto call = call_of(task, {input, static_cast<std::size_t>(input_elements(task))},
                              {output, static_cast<std::size_t>(output_elements(task))});
    return [this, call] { world_.all().run(call); };
  }

 private:
  World& world_;  // of launch, which outlives the adapter
  bool shared_;
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int ranks = argc == 4 ? std::atoi(argv[2]) : 0;
  const std::string_view variant = argc == 4 ? argv[3] : "";
  if (ranks < 1) {
    std::fputs("usage: peer_trireme PAGE RANKS VARIANT; peers_bench runs it\n", stderr);
    return 2;
  }
  trireme::WorldOptions options;
  if (variant == "trireme-tcp") {
    options.transport = trireme::TransportKind::Tcp;
  }
  const auto body = [&](trireme::World& world) {
    peers::bind_to_core(world.rank());
    peers::Trireme adapter(world, variant == "trireme-shared");
    peers::serve(argv[1], world.rank(), world.size(), adapter);
  };
  return trireme::launch(ranks, body, options);
}
