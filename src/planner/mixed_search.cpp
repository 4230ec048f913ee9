// A stage on fast devices gets more blocks than one on slow devices, so neither waits. Stages are numbered as the nodes are,
// so the first kind of nodes has the first stages. The schedule is 1F1B, whose time for unequal stages is exact.
#include "planner/mixed_search.h"

#include <algorithm>
#include <numeric>

#include "base/indexed_vector.h"
#include "planner/layout_space.h"
#include "trireme/placement_search.h"

namespace trireme::planner {
namespace {

struct Kind {
  TransformerCost cost;
  double peak = 0;  ///< of a device, over that of an average one
  int devices = 1;
  double memory_limit = 0;
};

double bytes_of(const StageCost& stage) {
  return std::accumulate(stage.memory.begin(), stage.memory.end(), 0.0);
}

class MixedSearch {
 public:
  MixedSearch(const TransformerCost& cost, const SearchOptions& options, Ranking& ranking)
      : cost_(cost), options_(options), space_(cost, options.space), ranking_(ranking) {
    const Cluster& cluster = cost.cluster();
    double average = 0;
    for (std::size_t k = 0; k < cluster.kinds.size(); ++k) {
      const Cluster part = nodes_of_kind(cluster, k);
      SearchOptions own{.memory_bytes = options.memory_bytes};
      TransformerCost of_kind(cost.model(), cost.workload(), part, efficiency_of(part));
      const double limit = Ranking(of_kind, own).memory_limit();
      const double peak = part.device.peak(cost.workload().dtype).value().count;
      kinds_.push_back({std::move(of_kind), peak, part.devices(), limit});
      average += peak * part.devices() / cluster.devices();
    }
    for (Kind& kind : kinds_) {
      kind.peak /= average;
    }
  }

  void run() {
    const auto& schedules = options_.space.schedules;
    const auto& context = options_.space.context;
    const bool wanted = (schedules.empty() ||
                         std::ranges::find(schedules, PipelineForm::OneFOneB) != schedules.end()) &&
                        (context.empty() || std::ranges::find(context, 1) != context.end());
    if (wanted) {
      decide(Decision::Tensor,
             [&] { decide(Decision::Microbatch, [&] { decide_recomputation(); }); });
    }
  }

 private:
  template <class Next>
  void decide(Decision decision, const Next& next) {
    std::vector<int> choices;
    if (decision == Decision::Pipe) {
      add_pipes(choices);
    } else {
      space_.choices(decision, layout_, choices);
    }
    for (const int value : choices) {
      space_.set(decision, value, layout_);
      next();
    }
  }

  /// Any number of stages for which every stage has devices of one kind.
  void add_pipes(std::vector<int>& out) const {
    SearchSpace space = options_.space;
    space.extent = SearchSpace::Extent::Wide;
    LayoutSpace(cost_, space).choices(Decision::Pipe, layout_, out);
    std::erase_if(out, [&](int pipe) {
      const int devices = cost_.cluster().devices() / pipe;
      return std::ranges::any_of(kinds_,
                                 [&](const Kind& kind) { return kind.devices % devices != 0; });
    });
  }

  void decide_recomputation() {
    decide(Decision::Recompute, [&] {
      prepare();
      decide(Decision::Pipe, [&] { decide(Decision::Zero, [&] { decide_bucket(); }); });
    });
  }

  void decide_bucket() {
    if (layout_.zero < 3) {
      decide(Decision::Bucket, [&] { consider(); });
    }
  }

  void prepare() {
    blocks_.clear();
    for (const Kind& kind : kinds_) {
      blocks_.push_back(kind.cost.blocks(layout_));
    }
  }

  [[nodiscard]] std::size_t kind_of(int stage) const {
    int first = stage * (cost_.cluster().devices() / layout_.pipe);
    std::size_t kind = 0;
    while (first >= kinds_[kind].devices) {
      first -= kinds_[kind++].devices;
    }
    return kind;
  }

  [[nodiscard]] StageCost stage(int stage, int blocks, int microbatches) const {
    const std::size_t kind = kind_of(stage);
    return kinds_[kind].cost.stage(layout_, blocks_[kind],
                                   {.blocks = blocks,
                                    .first = stage == 0,
                                    .last = stage + 1 == layout_.pipe,
                                    .in_flight = std::min(microbatches, layout_.pipe - stage)});
  }

  void consider() {
    const auto n = static_cast<int>(cost_.workload().batch /
                                    (static_cast<std::int64_t>(layout_.data) * layout_.microbatch));
    const auto layers = static_cast<int>(cost_.model().model.layers);
    const std::optional<StageSplit> split = deal_to_unequal_stages(
        {.blocks = layers, .stages = layout_.pipe, .microbatches = n},
        [&](int s, int blocks) -> std::optional<double> {
          const StageCost own = stage(s, blocks, n);
          return bytes_of(own) > kinds_[kind_of(s)].memory_limit ? std::nullopt
                                                                 : std::optional(own.seconds);
        });
    if (split) {
      ranking_.add_fitting(ranked(*split, n));
    } else {
      ranking_.count_too_large();
    }
  }

  [[nodiscard]] RankedLayout ranked(const StageSplit& split, int microbatches) const {
    RankedLayout result{.layout = layout_};
    StepCost& cost = result.cost;
    for (const Stage& each : split.stages) {
      result.stage_blocks.push_back(each.last - each.first);
      const auto index = static_cast<int>(result.stage_blocks.size()) - 1;
      add_stage(stage(index, result.stage_blocks.back(), microbatches),
                kinds_[kind_of(index)].peak * microbatches / layout_.pipe, cost);
    }
    at(cost, TimePart::Bubble) = split.seconds - sum_of_parts(cost);
    at(cost, TimePart::Pipe) = cost_.message_seconds(layout_, microbatches);
    at(cost, TimePart::Other) = cost_.efficiency().step.count;
    add_once(split, microbatches, cost);
    cost.seconds = sum_of_parts(cost);
    const StepCost weakest = cost_.step(layout_);  // the FLOPs do not depend on the devices
    cost.model_flops = weakest.model_flops;
    cost.hardware_flops = weakest.hardware_flops;
    return result;
  }

  static double& at(StepCost& cost, TimePart part) { return cost.time[position_of(part)]; }
  static double sum_of_parts(const StepCost& cost) {
    return std::accumulate(cost.time.begin(), cost.time.end(), 0.0);
  }

  /// Of what each micro-batch takes, the average over stages, weighted by the peaks of their devices as MFU is; of memory,
  /// that of the fullest.
  static void add_stage(const StageCost& stage, double share, StepCost& cost) {
    for (std::size_t part = 0; part < position_of(TimePart::Pipe); ++part) {
      cost.time[part] += share * stage.time[part];
    }
    if (bytes_of(stage) > cost.memory_bytes()) {
      cost.memory = stage.memory;
    }
  }

  /// What happens once per step is that of the stage that takes longest.
  void add_once(const StageSplit& split, int microbatches, StepCost& cost) const {
    double most = -1;
    for (std::size_t s = 0; s < split.stages.size(); ++s) {
      const StageCost own =
          stage(static_cast<int>(s), split.stages[s].last - split.stages[s].first, microbatches);
      if (own.once > most) {
        most = own.once;
        for (const TimePart part : {TimePart::Data, TimePart::Update}) {
          at(cost, part) = own.time[position_of(part)];
        }
      }
    }
  }

  const TransformerCost& cost_;
  const SearchOptions& options_;
  LayoutSpace space_;
  Ranking& ranking_;
  std::vector<Kind> kinds_;
  std::vector<TransformerCost::Blocks> blocks_;
  ParallelLayout layout_{};
};

}  // namespace

void try_unequal_stages(const TransformerCost& cost, const SearchOptions& options,
                        Ranking& ranking) {
  MixedSearch(cost, options, ranking).run();
}

}  // namespace trireme::planner
