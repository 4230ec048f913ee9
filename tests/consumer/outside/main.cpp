// A program outside of Trireme's tree: picks an all-reduce for eight ranks, checks it, prints its
// cost; then runs one.
#include <atomic>
#include <iostream>
#include <vector>

#include <trireme/cluster.h>
#include <trireme/collective_cost.h>
#include <trireme/comm.h>
#include <trireme/tensor.h>
#include <trireme/trace.h>
#include <trireme/version.h>

namespace {

/// Three ranks, as threads, add up a vector. True if all get the sum.
bool sums_up() {
  std::atomic<int> right = 0;
  trireme::run_threads(3, [&](trireme::World& world) {
    std::vector<float> data(1000, static_cast<float>(world.rank()));
    world.all().run(trireme::allreduce<float>(data));
    right += data.back() == 3.0F ? 1 : 0;
  });
  return right == 3;
}

}  // namespace

int main() {
  using namespace trireme;
  Selector selector(CostModel::uniform({1e-6}, {1e-9}, {1e-10}));
  const Selector::Query query{
      .operation = Operation::Allreduce, .ranks = 8, .bytes = parse_bytes("1M")};
  const Choice& best = selector.rank(query).front();
  const Schedule schedule = build(query.operation, best.algorithm, best.options);
  if (!problems(schedule).empty()) {
    return 1;
  }
  // A function of each of the other libraries, so that all of them are linked.
  const bool links = cluster_preset("dgx-h100").devices() == 8 && size_of(DType::BF16).count == 2 &&
                     problems(Trace{}).empty();
  std::cout << "trireme " << kVersion << ": " << to_text(best.algorithm) << " takes "
            << to_text(best.predicted) << "\n";
  return links && sums_up() ? 0 : 1;
}
