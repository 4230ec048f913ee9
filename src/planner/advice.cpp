#include "planner/advice.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "planner/exhaustive.h"

namespace trireme::planner {
namespace {

struct LargeTensor {
  std::string name{};
  std::string shape{};  ///< on all ranks
  double elements = 0;  ///< on one rank
};

std::string describe(const ParallelLayout& layout) {
  const std::string mesh = mesh_text(layout);
  return fmt::format("{} with ZeRO {}, {} recomputation and micro-batches of {}",
                     mesh.empty() ? "one device" : mesh, layout.zero, to_text(layout.recompute),
                     layout.microbatch);
}

std::vector<LargeTensor> weights(const TransformerCost& cost, const ParallelLayout& layout) {
  const ModelConfig& m = cost.model().model;
  const int up = m.family == Family::Llama ? 2 : 1;
  const double tensor = layout.tensor;
  std::vector<LargeTensor> all{
      {"the embedding", fmt::format("[{}, {}]", m.vocabulary, m.width),
       static_cast<double>(m.vocabulary * m.width) / tensor},
      {up == 2 ? "the gate and up projection of a block" : "the up projection of a block",
       fmt::format("[{}, {}]", m.width, up * m.hidden),
       static_cast<double>(m.width * up * m.hidden) / tensor}};
  if (cost.model().is_mixture()) {
    const std::int64_t hidden = cost.model().hidden_of_expert();
    all.push_back(
        {"the up projection of a block's experts",
         fmt::format("[{}, {}, {}]", m.experts, m.width, up * hidden),
         static_cast<double>(m.experts * m.width * up * hidden) / tensor / layout.expert});
  }
  return all;
}

std::vector<LargeTensor> activations(const TransformerCost& cost, const ParallelLayout& layout) {
  const ModelConfig& m = cost.model().model;
  const std::int64_t length = cost.workload().length;
  const double tokens =
      static_cast<double>(layout.microbatch) * static_cast<double>(length) / layout.context;
  const int up = m.family == Family::Llama ? 2 : 1;
  const auto per_token = [&](const char* name, std::int64_t width) {
    return LargeTensor{name, fmt::format("[{}, {}, {}]", layout.microbatch, length, width),
                       tokens * static_cast<double>(width) / layout.tensor};
  };
  std::vector<LargeTensor> all{per_token("the logits", m.vocabulary),
                               per_token("the hidden activations of a block", up * m.hidden)};
  if (cost.workload().attention == Workload::Attention::Unfused) {
    all.push_back({"the attention scores of a block",
                   fmt::format("[{}, {}, {}, {}]", layout.microbatch, m.heads, length, length),
                   tokens * static_cast<double>(length * m.heads) / layout.tensor});
  }
  return all;
}

/// Bytes of an element, as the category keeps it.
double bytes_of(CostedMemory part, const TransformerCost& cost) {
  switch (part) {
    case CostedMemory::Gradients:
      return cost.workload().recipe.gradient_bytes;
    case CostedMemory::OptimizerState:
      return cost.state_bytes();
    default:
      return 2;
  }
}

std::optional<RankedLayout> fastest(const TransformerCost& cost, const SearchOptions& options) {
  Ranking ranking(cost, options);
  try_all(cost, LayoutSpace(cost, options.space), ranking);
  PlanSearch found = ranking.take();
  return found.best.empty() ? std::nullopt : std::optional(std::move(found.best.front()));
}

std::string fits_text(const RankedLayout& found) {
  return fmt::format("{} needs {}", describe(found.layout),
                     to_text(Bytes{static_cast<std::int64_t>(found.cost.memory_bytes())}));
}

/// The same cluster with more nodes, if it says how they would be joined.
std::optional<Cluster> with_nodes(const Cluster& cluster, int nodes) {
  if (cluster.nodes > 1) {
    Cluster larger = cluster;
    larger.kinds.clear();  // more of the weakest
    larger.nodes = nodes;
    larger.links.back().reach = larger.devices();
    return larger;
  }
  const std::vector<std::string> presets = cluster_preset_names();
  if (std::ranges::find(presets, cluster.name) == presets.end()) {
    return std::nullopt;
  }
  return cluster_preset(fmt::format("{}:{}", cluster.name, nodes));
}

class Adviser {
 public:
  Adviser(const TransformerCost& cost, const SearchOptions& options)
      : cost_(cost), options_(options) {}

  [[nodiscard]] std::string advise(const RankedLayout& smallest) const {
    if (const std::optional<std::string> text = other_axes()) {
      return *text;
    }
    std::string text = more_nodes(smallest);
    if (const std::string shorter = shorter_sequences(); !shorter.empty()) {
      text += "; or " + shorter;
    }
    return text;
  }

 private:
  /// The layouts that need little memory.
  [[nodiscard]] SearchOptions frugal(SearchSpace::Extent extent) const {
    SearchOptions options{.memory_bytes = options_.memory_bytes, .keep = 1};
    options.space.extent = extent;
    options.space.schedules = {PipelineForm::OneFOneB};
    options.space.microbatch = {1, 2, 4};
    options.space.buckets = {Bytes{1 << 20}};
    return options;
  }

  /// Costs nothing.
  [[nodiscard]] std::optional<std::string> other_axes() const {
    for (const auto extent : {SearchSpace::Extent::Usual, SearchSpace::Extent::Wide}) {
      if (const std::optional<RankedLayout> found = fastest(cost_, frugal(extent))) {
        return fmt::format("cheapest change, on the same devices: {}{}", fits_text(*found),
                           extent == SearchSpace::Extent::Wide ? " (--wide)" : "");
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string more_nodes(const RankedLayout& smallest) const {
    constexpr int kMostNodes = 65536;
    const Cluster& cluster = cost_.cluster();
    for (int nodes = 2 * cluster.nodes; nodes <= kMostNodes; nodes *= 2) {
      const std::optional<Cluster> larger = with_nodes(cluster, nodes);
      if (!larger) {
        break;
      }
      const TransformerCost cost(cost_.model(), cost_.workload(), *larger, cost_.efficiency());
      if (const std::optional<RankedLayout> found =
              fastest(cost, frugal(SearchSpace::Extent::Usual))) {
        return fmt::format("cheapest change: {} nodes instead of {} ({} devices), where {}", nodes,
                           cluster.nodes, larger->devices(), fits_text(*found));
      }
    }
    const double limit = Ranking(cost_, options_).memory_limit();
    return fmt::format(
        "use devices with {:.1f} times the memory, or more tensor and pipeline "
        "parallelism on more devices",
        smallest.cost.memory_bytes() / limit);
  }

  [[nodiscard]] std::string shorter_sequences() const {
    constexpr std::int64_t kShortest = 256;
    for (std::int64_t length = cost_.workload().length / 2; length >= kShortest; length /= 2) {
      Workload work = cost_.workload();
      work.length = length;
      const TransformerCost cost(cost_.model(), work, cost_.cluster(), cost_.efficiency());
      if (const std::optional<RankedLayout> found =
              fastest(cost, frugal(SearchSpace::Extent::Usual))) {
        return fmt::format("sequences of {} tokens (--length), where {}", length,
                           fits_text(*found));
      }
    }
    return {};
  }

  const TransformerCost& cost_;
  const SearchOptions& options_;
};

}  // namespace

std::string describe_largest_tensor(const TransformerCost& cost, const RankedLayout& layout) {
  const auto& memory = layout.cost.memory;
  const auto at = std::ranges::max_element(memory);
  const auto part = static_cast<CostedMemory>(at - memory.begin());
  const bool activation = part == CostedMemory::Activations;
  const std::vector<LargeTensor> all =
      activation ? activations(cost, layout.layout) : weights(cost, layout.layout);
  const LargeTensor largest = *std::ranges::max_element(all, {}, &LargeTensor::elements);
  const bool sharded = (part == CostedMemory::OptimizerState && layout.layout.zero >= 1) ||
                       (part == CostedMemory::Gradients && layout.layout.zero >= 2) ||
                       (part == CostedMemory::Parameters && layout.layout.zero >= 3);
  const double shards = sharded ? layout.layout.data * layout.layout.context : 1;
  const double bytes = largest.elements * bytes_of(part, cost) / shards;
  return fmt::format("the largest part is {}, {}, and its largest tensor {} {}, {} on each rank",
                     to_text(part), to_text(Bytes{static_cast<std::int64_t>(*at)}), largest.name,
                     largest.shape, to_text(Bytes{static_cast<std::int64_t>(bytes)}));
}

std::string advise(const TransformerCost& cost, const SearchOptions& options,
                   const RankedLayout& smallest) {
  return Adviser(cost, options).advise(smallest);
}

}  // namespace trireme::planner
