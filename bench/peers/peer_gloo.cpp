// Gloo's program: forks its ranks, which find one another through files and communicate over
// loopback TCP.
//
//   peer_gloo PAGE RANKS DIRECTORY
//
// Gloo has no reduce-scatter with input and output; its class ReduceScatterHalvingDoubling works in
// place and destroys its input. It gets the input once; copying it each time would add time that is
// not Gloo's.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

namespace peers {
namespace {

using Sum = void (*)(void*, const void*, const void*, std::size_t);
constexpr Sum kSum = &gloo::sum<float>;

std::shared_ptr<gloo::Context> connect(const std::string& directory, int rank, int ranks) {
  gloo::transport::tcp::attr address("localhost");
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(directory);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

/// A call of `operation` with options that are created once.
template <class Options>
std::function<void()> call_of(void (*operation)(Options&), std::shared_ptr<Options> options) {
  return [operation, options] { operation(*options); };
}

class Gloo final : public Adapter {
 public:
  Gloo(const std::string& directory, int rank, int ranks)
      : context_(connect(directory, rank, ranks)) {}

  [[nodiscard]] std::function<void()> prepare(const Task& task, float* input,
                                              float* output) override {
    switch (task.operation) {
      case Operation::Allreduce:
        return allreduce(task, input, output);
      case Operation::ReduceScatter:
        return reduce_scatter(task, input, output);
      case Operation::Allgather:
        return in_and_out<gloo::AllgatherOptions>(&gloo::allgather, task, input, output);
      case Operation::Broadcast:
        return broadcast(task, output);
      case Operation::Alltoall:
        return in_and_out<gloo::AlltoallOptions>(&gloo::alltoall, task, input, output);
      case Operation::Reduce:
        return reduce(task, input, output);
      case Operation::Gather:
        return gather(task, input, output);
      case Operation::Scatter:
        return scatter(task, input, output);
    }
    throw std::runtime_error("unknown operation");
  }

 private:
  template <class Options>
  [[nodiscard]] std::shared_ptr<Options> options() const {
    return std::make_shared<Options>(context_);
  }

  template <class Options>
  std::function<void()> in_and_out(void (*operation)(Options&), const Task& task, float* input,
                                   float* output) const {
    auto made = options<Options>();
    made->setInput(input, static_cast<std::size_t>(input_elements(task)));
    made->setOutput(output, static_cast<std::size_t>(output_elements(task)));
    return call_of(operation, made);
  }

  std::function<void()> allreduce(const Task& task, float* input, float* output) const {
    auto made = options<gloo::AllreduceOptions>();
    made->setInput(input, static_cast<std::size_t>(task.count));
    made->setOutput(output, static_cast<std::size_t>(task.count));
    made->setReduceFunction(kSum);
    return [made] { gloo::allreduce(*made); };
  }

  /// Sums of sums grow, so only the first call has the input; the rest add up zeros.
  std::function<void()> reduce_scatter(const Task& task, float* input, float* output) const {
    using Algorithm = gloo::ReduceScatterHalvingDoubling<float>;
    const auto algorithm = std::make_shared<Algorithm>(
        context_, std::vector<float*>{input}, static_cast<int>(task.count),
        std::vector<int>(task.ranks, static_cast<int>(task.block())));
    return [=, first = true]() mutable {
      algorithm->run();
      if (first) {
        std::memcpy(output, input, static_cast<std::size_t>(task.block()) * sizeof(float));
        std::memset(input, 0, static_cast<std::size_t>(task.count) * sizeof(float));
        first = false;
      }
    };
  }

  std::function<void()> broadcast(const Task& task, float* output) const {
    auto made = options<gloo::BroadcastOptions>();
    made->setOutput(output, static_cast<std::size_t>(task.count));
    made->setRoot(0);
    return call_of(&gloo::broadcast, made);
  }

  std::function<void()> reduce(const Task& task, float* input, float* output) const {
    auto made = options<gloo::ReduceOptions>();
    made->setInput(input, static_cast<std::size_t>(task.count));
    made->setOutput(output, static_cast<std::size_t>(task.count));
    made->setReduceFunction(kSum);
    made->setRoot(0);
    return call_of(&gloo::reduce, made);
  }

  std::function<void()> gather(const Task& task, float* input, float* output) const {
    auto made = options<gloo::GatherOptions>();
    made->setInput(input, static_cast<std::size_t>(task.block()));
    if (task.is_root()) {
      made->setOutput(output, static_cast<std::size_t>(task.count));
    }
    made->setRoot(0);
    return call_of(&gloo::gather, made);
  }

  std::function<void()> scatter(const Task& task, float* input, float* output) const {
    auto made = options<gloo::ScatterOptions>();
    std::vector<float*> blocks;
    for (int rank = 0; task.is_root() && rank < task.ranks; ++rank) {
      blocks.push_back(input + rank * task.block());
    }
    made->setInputs(blocks, static_cast<std::size_t>(task.block()));
    made->setOutput(output, static_cast<std::size_t>(task.block()));
    made->setRoot(0);
    return call_of(&gloo::scatter, made);
  }

  std::shared_ptr<gloo::Context> context_;
};

int run_rank(const std::string& page_file, const std::string& directory, int rank, int ranks) {
  try {
    end_with_parent();
    Gloo adapter(directory, rank, ranks);
    return serve(page_file, rank, ranks, adapter);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

/// Returns when all ranks have ended, or as soon as one fails; the rest end with this process.
int wait_for_all(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) {
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int ranks = argc == 4 ? std::atoi(argv[2]) : 0;
  if (ranks < 1) {
    std::fputs("usage: peer_gloo PAGE RANKS DIRECTORY; peers_bench runs it\n", stderr);
    return 2;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      std::_Exit(peers::run_rank(argv[1], argv[3], rank, ranks));
    }
  }
  return peers::wait_for_all(ranks);
}
