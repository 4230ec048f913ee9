// The MPI libraries' program, compiled once for each: Open MPI and MPICH. Started by the library's
// mpirun.
//
//   peer_openmpi PAGE, peer_mpich PAGE
#include <cstdio>
#include <stdexcept>
#include <string>

#include <mpi.h>

#include "harness.h"

namespace peers {
namespace {

void check(int status) {
  if (status != MPI_SUCCESS) {
    throw std::runtime_error("MPI error " + std::to_string(status));
  }
}

class Mpi final : public Adapter {
 public:
  [[nodiscard]] std::function<void()> prepare(const Task& task, float* input,
                                              float* output) override {
    const int all = static_cast<int>(task.count);
    const int block = static_cast<int>(task.block());
    const auto world = MPI_COMM_WORLD;
    switch (task.operation) {
      case Operation::Allreduce:
        return [=] { check(MPI_Allreduce(input, output, all, MPI_FLOAT, MPI_SUM, world)); };
      case Operation::ReduceScatter:
        return [=] {
          check(MPI_Reduce_scatter_block(input, output, block, MPI_FLOAT, MPI_SUM, world));
        };
      case Operation::Allgather:
        return
            [=] { check(MPI_Allgather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, world)); };
      case Operation::Broadcast:
        return [=] { check(MPI_Bcast(output, all, MPI_FLOAT, 0, world)); };
      case Operation::Alltoall:
        return
            [=] { check(MPI_Alltoall(input, block, MPI_FLOAT, output, block, MPI_FLOAT, world)); };
      case Operation::Reduce:
        return [=] { check(MPI_Reduce(input, output, all, MPI_FLOAT, MPI_SUM, 0, world)); };
      case Operation::Gather:
        return
            [=] { check(MPI_Gather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, 0, world)); };
      case Operation::Scatter:
        return [=] {
          check(MPI_Scatter(input, block, MPI_FLOAT, output, block, MPI_FLOAT, 0, world));
        };
    }
    throw std::runtime_error("unknown operation");
  }
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: peer_… PAGE; peers_bench runs it\n", stderr);
    return 2;
  }
  peers::end_with_parent();
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    peers::Mpi adapter;
    peers::serve(argv[1], rank, ranks, adapter);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
