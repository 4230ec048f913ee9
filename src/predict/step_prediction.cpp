#include "trireme/step_prediction.h"

#include <algorithm>

#include "comm/direct/direct_cost.h"
#include "trireme/error.h"
#include "trireme/kernel_costs.h"
#include "trireme/partition.h"

namespace trireme::predict {
namespace {

/// Blocks along a dimension that is not the outermost are packed before they are sent or unpacked after they arrive.
bool is_packed(const Signature& s) {
  const auto outermost = [&](const char* dimension, const TensorType& type) {
    const auto& dims = type.shape.dims();
    return std::all_of(dims.begin(), dims.begin() + s.integer(dimension),
                       [](std::int64_t size) { return size == 1; });
  };
  if (s.op->name == "all_to_all") {
    return true;
  }
  const bool blocks = s.op->name == "all_gather" || s.op->name == "reduce_scatter";
  return blocks && !outermost("dimension", s.inputs.front());
}

/// How long communication takes on the host, as a training run does it: directly through shared memory, from private
/// buffers.
class HostCommunication {
 public:
  explicit HostCommunication(const HostCosts& costs) : costs_(costs) {}

  [[nodiscard]] Seconds collective(const simulate::CollectiveCall& call) const {
    const auto ranks = static_cast<Rank>(call.members.size());
    const Seconds moving = comm::predict_direct({.operation = call.operation,
                                                 .ranks = ranks,
                                                 .bytes = call.bytes,
                                                 .sight = comm::Sight::Hidden,
                                                 .dtype = call.op.inputs.front().dtype},
                                                costs_);
    return {moving.count + (is_packed(call.op) ? packing(call.bytes).count : 0)};
  }
  [[nodiscard]] Seconds message(Bytes bytes) const {
    const MessageCost* cost = costs_.messages_by("shm");
    return cost != nullptr ? cost->at(bytes).one_way : Seconds{};
  }

 private:
  /// Reading and writing the vector once more.
  [[nodiscard]] Seconds packing(Bytes bytes) const {
    const auto footprint = std::ranges::find_if(costs_.copy, [&](const MemoryCost& cost) {
      return cost.footprint.count >= 2 * bytes.count;
    });
    const MemoryCost& cost = footprint == costs_.copy.end() ? costs_.copy.back() : *footprint;
    return {2 * static_cast<double>(bytes.count) * cost.together.count};
  }

  const HostCosts& costs_;
};

/// The times of two simulations that are equally likely; the trace remains that of the first.
void average(simulate::SimulationReport& report, const simulate::SimulationReport& other) {
  const auto mean = [](Seconds& mine, Seconds others) { mine = {(mine.count + others.count) / 2}; };
  report.slowest = std::max(report.step, other.step);
  mean(report.step, other.step);
  mean(report.communication, other.communication);
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    mean(report.ranks[rank].compute, other.ranks[rank].compute);
    mean(report.ranks[rank].exposed, other.ranks[rank].exposed);
    mean(report.ranks[rank].idle, other.ranks[rank].idle);
  }
}

}  // namespace

int threads_per_rank(int cores, int ranks) {
  return std::max(1, cores / std::max(1, ranks));
}

simulate::SimulationReport predict_step(const RankPrograms& programs, const Mesh& mesh,
                                        const HostCosts& costs, const HostRun& run) {
  if (!costs.compute) {
    throw Error(ErrorKind::Usage,
                "the costs of this host lack those of computing; run 'trireme probe'");
  }
  const auto ranks = static_cast<int>(programs.of_rank.size());
  const int threads = run.threads > 0 ? run.threads : threads_per_rank(costs.cores, ranks);
  const KernelTimes kernels(*costs.compute, costs.cores, {.ranks = ranks, .threads = threads});
  const HostCommunication communication(costs);
  simulate::ProgramSimulationOptions options{
      .compute = [&](const Signature& signature,
                     const Work& /*work*/) { return kernels.time(kernel_work(signature)); },
      .host = simulate::SimulatedHost{
          .cores = {.cores = costs.cores,
                    .threads = threads,
                    .speedup_alone = kernels.speedup_alone()},
          .collective = [&](const auto& call) { return communication.collective(call); },
          .message = [&](Bytes bytes) { return communication.message(bytes); },
          .start = kernels.fixed(kStart),
          .wake = {kernels.fixed(kBackground).count / 2}},  // one thread, then the other
      .variation = run.variation,
      .overlap = run.overlap,
      .trace = run.trace};
  const std::vector<RankGroups> groups = groups_of(mesh);
  simulate::SimulationReport report = simulate::simulate_programs(programs, groups, {}, options);
  if (ranks * threads > costs.cores) {
    options.host->cores.placement = simulate::CorePlacement::Neighbors;
    options.trace = false;
    average(report, simulate::simulate_programs(programs, groups, {}, options));
  }
  return report;
}

}  // namespace trireme::predict
